//! What etcd can bear.
//!
//! With n votes a majority of n/2 + 1 must be there for anything to be written. Nothing that is done on purpose may take
//! it away; the one exception is a cluster of one, which cannot be started again in any other way.

use super::{Member, Members};

/// Why etcd would lose its quorum, for users.
pub type Unbearable = String;

/// The member on a machine, if there is one. Members are named after their Node, with a suffix; a member that never
/// started is identified by its address.
pub fn member_of<'a>(members: &'a Members, node: &str, addresses: &[String]) -> Option<&'a Member> {
    let by_name = members.members.iter().find(|member| node_of(&member.name) == Some(node));
    by_name.or_else(|| {
        let unnamed = members.members.iter().filter(|member| member.name.is_empty());
        let mut unnamed = unnamed.filter(|member| {
            member.peer_urls.iter().any(|url| addresses.iter().any(|address| is_at(url, address)))
        });
        unnamed.next()
    })
}

/// The Node in `web-0-1a2b3c4d`.
pub(crate) fn node_of(name: &str) -> Option<&str> {
    let (node, suffix) = name.rsplit_once('-')?;
    (suffix.len() == 8 && suffix.bytes().all(|c| c.is_ascii_hexdigit())).then_some(node)
}

fn is_at(url: &str, address: &str) -> bool {
    let host = url.strip_prefix("https://").and_then(|rest| rest.rsplit_once(':')).map(|(host, _)| host);
    host.is_some_and(|host| host.trim_start_matches('[').trim_end_matches(']') == address)
}

/// Votes there must be, among so many.
const fn majority(votes: usize) -> usize {
    votes / 2 + 1
}

fn votes(members: &Members) -> usize {
    members.members.iter().filter(|member| !member.is_learner).count()
}

/// Votes that are there, beside one.
fn healthy_others(members: &Members, id: u64) -> usize {
    let others = members.members.iter().filter(|member| !member.is_learner && member.id != id);
    others.filter(|member| member.is_healthy).count()
}

/// Whether the member may be taken out for good.
pub(crate) fn may_remove(members: &Members, member: &Member) -> Result<(), Unbearable> {
    if member.is_learner {
        return Ok(());
    }
    let left = votes(members).saturating_sub(1);
    if left == 0 {
        return Err("it is the last member of etcd: all data would be lost".to_owned());
    }
    let there = healthy_others(members, member.id);
    match there >= majority(left) {
        true => Ok(()),
        false => Err(format!(
            "of the {left} members of etcd that would be left {there} are healthy, and it takes {}",
            majority(left)
        )),
    }
}

/// Whether the member may be away for a while.
pub(crate) fn may_stop(members: &Members, member: &Member) -> Result<(), Unbearable> {
    let votes = votes(members);
    // One that is away already is missed no more than it is.
    if member.is_learner || !member.is_healthy || votes <= 1 {
        return Ok(());
    }
    let there = healthy_others(members, member.id);
    match there >= majority(votes) {
        true => Ok(()),
        false => Err(format!(
            "without it {there} of {votes} members of etcd would be healthy, and it takes {}",
            majority(votes)
        )),
    }
}

/// Whether another member may join: only if all members are healthy, because every new member raises the majority.
pub fn may_add(members: &Members) -> Result<(), Unbearable> {
    match members.members.iter().find(|member| member.is_learner || !member.is_healthy) {
        None => Ok(()),
        Some(member) if member.is_learner => {
            Err(format!("etcd member {} has not caught up with the others yet", shown(member)))
        }
        Some(member) => Err(format!("etcd member {} is not healthy", shown(member))),
    }
}

fn shown(member: &Member) -> String {
    match member.name.is_empty() {
        true => format!("{:x}, which has never started,", member.id),
        false => member.name.clone(),
    }
}

/// Who should lead instead: healthy, with a vote.
pub(crate) fn successor<'a>(members: &'a Members, leaving: &Member) -> Option<&'a Member> {
    let fit = |member: &&Member| member.id != leaving.id && member.is_healthy && !member.is_learner;
    members.members.iter().filter(fit).min_by_key(|member| member.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member(id: u64, is_healthy: bool, is_learner: bool) -> Member {
        let name = format!("m{id}-0000000{}", id % 10);
        let peer_urls = vec![format!("https://10.0.0.{id}:2380")];
        Member { id, name, peer_urls, is_healthy, is_learner, ..Member::default() }
    }

    /// One letter for each: healthy, ill, learner.
    fn members(text: &str) -> Members {
        let members = text.chars().zip(1..).map(|(letter, id)| member(id, letter != 'i', letter == 'l'));
        Members { members: members.collect(), leader: Some(1) }
    }

    #[test]
    fn what_may_be_taken_out() {
        for (text, first, last) in [
            ("h", false, false),
            ("hh", true, true),
            ("hi", false, true),
            ("hhh", true, true),
            ("hhi", false, true),
            ("hii", false, false),
            ("hhhhi", true, true),
            ("hhhii", false, true),
            ("hl", false, true),
            ("hhl", true, true),
        ] {
            let members = members(text);
            let may = |member: Option<&Member>| may_remove(&members, member.expect("a member")).is_ok();
            assert_eq!((may(members.members.first()), may(members.members.last())), (first, last), "{text}");
        }
    }

    #[test]
    fn what_may_be_away() {
        for (text, first, last) in [
            // The only one there is has to.
            ("h", true, true),
            ("i", true, true),
            ("hh", false, false),
            ("hi", false, true),
            ("hhh", true, true),
            ("hhi", false, true),
            ("hii", false, true),
            ("hl", true, true),
            ("hhhhi", true, true),
            ("hhhii", false, true),
        ] {
            let members = members(text);
            let may = |member: Option<&Member>| may_stop(&members, member.expect("a member")).is_ok();
            assert_eq!((may(members.members.first()), may(members.members.last())), (first, last), "{text}");
        }
    }

    #[test]
    fn nobody_joins_while_somebody_is_ill() {
        assert!(may_add(&members("hhh")).is_ok());
        assert!(may_add(&members("hi")).is_err_and(|why| why.contains("m2-00000002 is not healthy")));
        assert!(may_add(&members("hl")).is_err_and(|why| why.contains("not caught up")));
    }

    #[test]
    fn members_are_found_by_node_or_address() {
        let mut all = members("hh");
        all.members.push(Member {
            id: 9,
            peer_urls: vec!["https://[fd00::1]:2380".to_owned()],
            ..Member::default()
        });
        let found = |node: &str, addresses: &[&str]| {
            let addresses: Vec<String> = addresses.iter().map(|address| (*address).to_owned()).collect();
            member_of(&all, node, &addresses).map(|member| member.id)
        };
        assert_eq!(found("m1", &[]), Some(1));
        assert_eq!(found("m", &["10.0.0.1"]), None, "a namesake's address does not count");
        assert_eq!(found("new", &["fd00::1"]), Some(9));
        assert_eq!(node_of("a-b-1a2b3c4d"), Some("a-b"));
        assert_eq!(node_of("a-b-1a2b3c4"), None);
        assert_eq!(node_of("abc"), None);
    }

    proptest! {
        /// Whatever is allowed leaves a majority of what is left, or was a cluster of one.
        #[test]
        fn what_is_allowed_keeps_the_majority(text in "[hil]{1,9}", index in any::<prop::sample::Index>()) {
            let all = members(&text);
            let member = index.get(&all.members);
            let healthy = |members: &[&Member]| members.iter().filter(|m| m.is_healthy && !m.is_learner).count();
            let others: Vec<&Member> = all.members.iter().filter(|m| m.id != member.id).collect();
            let voters = |members: &[&Member]| members.iter().filter(|m| !m.is_learner).count();
            if may_remove(&all, member).is_ok() && !member.is_learner {
                prop_assert!(healthy(&others) > voters(&others) / 2);
            }
            let counts = member.is_healthy && !member.is_learner;
            if may_stop(&all, member).is_ok() && counts && votes(&all) > 1 {
                prop_assert!(healthy(&others) > votes(&all) / 2);
            }
        }
    }
}
