//! Removes a machine that is being deleted from etcd before its host is released: leadership is moved, then its member
//! is removed. A machine that is about to join is stopped from it, or waited for.

use jiff::{SignedDuration, Timestamp};

use crate::etcd::{Member, Members, quorum};
use crate::facts::{EtcdView, Hook, MachineFacts, PlanFacts, Progress};

/// What to do about a control plane machine that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// Nothing now.
    Nothing,
    /// Keep it for now, and why.
    Hold(String),
    /// Transfer the leadership to another member.
    HandOver {
        /// Who leads.
        from: Member,
        /// Who should.
        to: Member,
    },
    /// Remove its member from etcd.
    Remove(Member),
    /// Withdraw its plan, so that it does not join.
    Withdraw,
    /// Remove the hook, so that its deletion continues.
    Release,
}

/// How long a machine that is about to join etcd is waited for: as long as Kubernetes may take to start.
const JOINING: SignedDuration = SignedDuration::from_mins(15);

/// The next step for a machine that is being deleted. `ends`: the whole control plane is being deleted.
pub fn leave(
    machine: &MachineFacts,
    etcd: &EtcdView,
    initialized: bool,
    ends: bool,
    now: Timestamp,
) -> Leaving {
    if !machine.deleting || machine.hook == Hook::None {
        return Leaving::Nothing;
    }
    if ends || !initialized {
        return Leaving::Release;
    }
    if machine.hook != Hook::Awaited {
        return Leaving::Nothing;
    }
    let members = match etcd {
        EtcdView::Known(members) => members,
        // It never got as far as that.
        EtcdView::Unknown(_) if !machine.was_planned() && !machine.has_node => return Leaving::Release,
        EtcdView::Unknown(why) => return Leaving::Hold(format!("it is not known how etcd is: {why}")),
    };
    let Some(member) = quorum::member_of(members, machine.node_name(), &machine.addresses) else {
        return no_member(machine, now);
    };
    if let Err(why) = quorum::may_remove(members, member) {
        return Leaving::Hold(why);
    }
    if members.leader != Some(member.id) {
        return Leaving::Remove(member.clone());
    }
    match quorum::successor(members, member) {
        Some(to) => Leaving::HandOver { from: member.clone(), to: to.clone() },
        None => Leaving::Hold("no other etcd member can become the leader".to_owned()),
    }
}

/// The next step of one that is no member. If it joined while its host is taken away, etcd would count a vote that
/// nobody can give.
fn no_member(machine: &MachineFacts, now: Timestamp) -> Leaving {
    let lets_join =
        |plan: &&PlanFacts| plan.is_open && matches!(plan.progress, Progress::InFlight | Progress::AtGate);
    let Some(plan) = machine.plan.as_ref().filter(lets_join) else { return Leaving::Release };
    if machine.reported_revision.is_none_or(|revision| revision < plan.id.revision()) {
        return Leaving::Withdraw;
    }
    let is_over = machine.awaited_since.is_none_or(|since| now.duration_since(since) >= JOINING);
    match is_over {
        true => Leaving::Release,
        false => Leaving::Hold(format!(
            "it is about to join etcd, which it must have done before it can leave; it is let go at the latest \
             {} minutes after its deletion came this far",
            JOINING.as_mins()
        )),
    }
}

/// A member without a machine that etcd does not need: it has no vote or is not healthy. Call it only while no
/// machine joins, because the member of such a machine may not have a name yet. A healthy member belongs to a
/// machine.
pub fn stray<'a>(machines: &[MachineFacts], members: &'a Members) -> Option<&'a Member> {
    let servers = || machines.iter().filter(|machine| machine.control_plane);
    if servers().any(|machine| machine.is_in_flight() && !machine.is_held()) {
        return None;
    }
    let known: Vec<u64> = servers()
        .filter_map(|machine| quorum::member_of(members, machine.node_name(), &machine.addresses))
        .map(|member| member.id)
        .collect();
    let is_stray =
        |member: &&Member| !known.contains(&member.id) && (member.is_learner || !member.is_healthy);
    members.members.iter().filter(is_stray).find(|member| quorum::may_remove(members, member).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixtures::members;
    use capstan_plan::Revision;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn leaving(name: &str) -> MachineFacts {
        MachineFacts::server(name).up().leaving().with(|m| m.hook = Hook::Awaited)
    }

    fn decided(machine: &MachineFacts, etcd: &str) -> String {
        described(leave(machine, &EtcdView::Known(members(etcd)), true, false, NOW))
    }

    fn described(step: Leaving) -> String {
        match step {
            Leaving::Nothing => "nothing".to_owned(),
            Leaving::Hold(why) => why,
            Leaving::HandOver { from, to } => format!("{} instead of {}", to.name, from.name),
            Leaving::Remove(member) => format!("remove {}", member.name),
            Leaving::Withdraw => "withdraw".to_owned(),
            Leaving::Release => "release".to_owned(),
        }
    }

    #[test]
    fn a_member_hands_over_is_removed_and_goes() {
        assert_eq!(decided(&leaving("a"), "a+ b+ c+"), "b-00000002 instead of a-00000001");
        assert_eq!(decided(&leaving("c"), "a+ b+ c+"), "remove c-00000003");
        assert_eq!(decided(&leaving("c"), "a+ b+"), "release");
        assert_eq!(decided(&leaving("c"), "a+ c~"), "remove c-00000002");
    }

    #[test]
    fn who_is_needed_stays() {
        assert!(decided(&leaving("a"), "a+").contains("the last member"));
        assert!(decided(&leaving("a"), "a+ b-").starts_with("of the 1 members"));
        let unknown = EtcdView::Unknown("no way".to_owned());
        assert!(matches!(leave(&leaving("a"), &unknown, true, false, NOW), Leaving::Hold(_)));
        let never_planned = leaving("a").with(|m| (m.plan, m.has_node) = (None, false));
        assert_eq!(leave(&never_planned, &unknown, true, false, NOW), Leaving::Release);
        // Its plan was lost: it may be a member all the same.
        let was_node = never_planned.clone().with(|m| m.has_node = true);
        let has_reported = never_planned.with(|m| m.reported_revision = Revision::new(1).ok());
        for machine in [was_node, has_reported] {
            assert!(matches!(leave(&machine, &unknown, true, false, NOW), Leaving::Hold(_)));
        }
    }

    #[test]
    fn with_the_whole_cluster_everybody_goes() {
        let etcd = EtcdView::Known(members("a+"));
        assert_eq!(leave(&leaving("a"), &etcd, true, true, NOW), Leaving::Release);
        assert_eq!(leave(&leaving("a"), &etcd, false, false, NOW), Leaving::Release);
        let early = leaving("a").with(|m| m.hook = Hook::Set);
        assert_eq!(leave(&early, &etcd, true, true, NOW), Leaving::Release);
        assert_eq!(
            leave(&early, &etcd, true, false, NOW),
            Leaving::Nothing,
            "pods are still being moved away"
        );
        assert_eq!(
            leave(&leaving("a").with(|m| m.hook = Hook::None), &etcd, true, true, NOW),
            Leaving::Nothing
        );
        assert_eq!(
            leave(&leaving("a").with(|m| m.deleting = false), &etcd, true, true, NOW),
            Leaving::Nothing
        );
    }

    /// A machine that was told to join and is no member.
    fn joining(spoken: Option<u64>, minutes: i64) -> MachineFacts {
        leaving("c").says(Progress::InFlight).with(|m| {
            m.plan.as_mut().expect("a plan").is_open = true;
            m.reported_revision = spoken.map(|number| Revision::new(number).expect("a revision"));
            m.awaited_since = NOW.checked_sub(SignedDuration::from_mins(minutes)).ok();
        })
    }

    #[test]
    fn who_is_about_to_join_is_stopped_or_waited_for() {
        assert_eq!(decided(&joining(None, 0), "a+ b+"), "withdraw");
        assert!(decided(&joining(Some(1), 14), "a+ b+").contains("about to join etcd"));
        assert_eq!(decided(&joining(Some(1), 15), "a+ b+"), "release");
        assert_eq!(decided(&joining(Some(1), 1), "a+ b+ c+"), "remove c-00000003", "it has joined");
        let held = joining(Some(1), 1).with(|m| m.plan.as_mut().expect("a plan").is_open = false);
        assert_eq!(decided(&held, "a+ b+"), "release", "it never gets through its gate");
        assert_eq!(decided(&joining(Some(1), 1).says(Progress::Failed(String::new())), "a+ b+"), "release");
    }

    #[test]
    fn members_of_nobody_go() {
        let up = |name: &str| MachineFacts::server(name).up();
        let strays = |machines: &[MachineFacts], etcd: &str| {
            stray(machines, &members(etcd)).map(|member| member.name.clone())
        };
        let pair = [up("a"), up("b")];
        assert_eq!(strays(&pair, "a+ b+"), None);
        assert_eq!(strays(&pair, "a+ b+ c~"), Some("c-00000003".to_owned()));
        assert_eq!(strays(&pair, "a+ b+ c-"), Some("c-00000003".to_owned()));
        assert_eq!(strays(&pair, "a+ b+ c+"), None, "somebody may be using it");
        assert_eq!(strays(&pair, "a+ b-"), None, "it is that of a machine");
        assert_eq!(strays(&[up("a"), up("b").says(Progress::InFlight)], "a+ c~"), None, "b may be joining");
        assert_eq!(strays(&[up("a")], "a+ b- c-"), None, "one of three is no majority");
    }
}
