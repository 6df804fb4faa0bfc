//! A machine on its way out leaves etcd first: it hands over the lead, its member is removed, and only then is its host
//! let go. The decision is pure.

use capstan_api::core::Machine;
use capstan_controller::error::Result;
use capstan_controller::etcd::{Access, Etcd, Member};
use serde_json::json;

use crate::etcd::quorum;
use crate::facts::{EtcdView, Hook, MachineFacts};
use crate::names::LEAVE_ETCD_HOOK;
use crate::scope::Scope;

/// What is to be done about a machine that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Nothing yet, or nothing any more.
    Nothing,
    /// It must stay for now, and why.
    Hold(String),
    /// Another member leads from now on.
    HandOver {
        /// Who leads.
        from: Member,
        /// Who should.
        to: Member,
    },
    /// Its member is removed.
    Remove(Member),
    /// It may go.
    Release,
}

/// The next step of a machine on its way out. `ends` says that the whole control plane goes.
pub(crate) fn decide(machine: &MachineFacts, etcd: &EtcdView, initialized: bool, ends: bool) -> Leaving {
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
        EtcdView::Unknown(_) if machine.plan.is_none() => return Leaving::Release,
        EtcdView::Unknown(why) => return Leaving::Hold(format!("it is not known how etcd is: {why}")),
    };
    let Some(member) = quorum::member_of(members, machine.node_name(), &machine.addresses) else {
        return Leaving::Release;
    };
    if let Err(why) = quorum::may_remove(members, member) {
        return Leaving::Hold(why);
    }
    if members.leader != Some(member.id) {
        return Leaving::Remove(member.clone());
    }
    match quorum::successor(members, member) {
        Some(to) => Leaving::HandOver { from: member.clone(), to: to.clone() },
        None => Leaving::Hold("nobody could lead etcd instead".to_owned()),
    }
}

/// Carries it out. Says whether something was done, after which etcd is not what it was.
pub(crate) async fn act(
    scope: &Scope<'_>,
    etcd: &dyn Etcd,
    access: &Access,
    machine: &str,
    step: &Leaving,
) -> Result<bool> {
    match step {
        Leaving::Nothing | Leaving::Hold(_) => return Ok(false),
        Leaving::HandOver { from, to } => {
            tracing::info!(from = from.name, to = to.name, "etcd: another member is to lead");
            etcd.move_leader(access, from, to).await?;
        }
        Leaving::Remove(member) => {
            tracing::info!(member = member.name, "etcd: member is removed");
            etcd.remove(access, member).await?;
        }
        Leaving::Release => release(scope, machine).await?,
    }
    Ok(true)
}

/// Lets a machine's host go.
pub(crate) async fn release(scope: &Scope<'_>, machine: &str) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {LEAVE_ETCD_HOOK: null}}});
    scope.patch::<Machine>(machine, &patch).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixtures::members;

    fn leaving(name: &str) -> MachineFacts {
        MachineFacts::server(name).up().leaving().with(|m| m.hook = Hook::Awaited)
    }

    fn decided(machine: &MachineFacts, etcd: &str) -> String {
        told(decide(machine, &EtcdView::Known(members(etcd)), true, false))
    }

    fn told(step: Leaving) -> String {
        match step {
            Leaving::Nothing => "nothing".to_owned(),
            Leaving::Hold(why) => why,
            Leaving::HandOver { from, to } => format!("{} instead of {}", to.name, from.name),
            Leaving::Remove(member) => format!("remove {}", member.name),
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
        assert!(matches!(decide(&leaving("a"), &unknown, true, false), Leaving::Hold(_)));
        let never_planned = leaving("a").with(|m| m.plan = None);
        assert_eq!(decide(&never_planned, &unknown, true, false), Leaving::Release);
    }

    #[test]
    fn with_the_whole_cluster_everybody_goes() {
        let etcd = EtcdView::Known(members("a+"));
        assert_eq!(decide(&leaving("a"), &etcd, true, true), Leaving::Release);
        assert_eq!(decide(&leaving("a"), &etcd, false, false), Leaving::Release);
        let early = leaving("a").with(|m| m.hook = Hook::Set);
        assert_eq!(decide(&early, &etcd, true, true), Leaving::Release);
        assert_eq!(decide(&early, &etcd, true, false), Leaving::Nothing, "pods are still being moved away");
        assert_eq!(decide(&leaving("a").with(|m| m.hook = Hook::None), &etcd, true, true), Leaving::Nothing);
        assert_eq!(decide(&leaving("a").with(|m| m.deleting = false), &etcd, true, true), Leaving::Nothing);
    }
}
