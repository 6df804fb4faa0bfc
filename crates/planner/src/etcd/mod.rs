//! The members of a cluster's etcd, and what they can bear.
//!
//! Who is a member is read from etcd itself, never from Nodes or labels.

pub mod quorum;

use crate::facts::{EtcdView, MachineFacts};

/// One member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its ID.
    pub id: u64,
    /// Its name; empty before its first start.
    pub name: String,
    /// Its peer URLs.
    pub peer_urls: Vec<String>,
    /// Its client URLs; empty before its first start.
    pub client_urls: Vec<String>,
    /// Whether it is a learner, without a vote.
    pub is_learner: bool,
    /// Whether it responds, knows a leader, and reports no error.
    pub is_healthy: bool,
}

/// The members at one moment, as a quorum of them reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// All of them.
    pub members: Vec<Member>,
    /// The ID of the leader, if there is one.
    pub leader: Option<u64>,
}

/// Whether the members matter: a single server that stays the only one is its own majority.
pub fn counts(machines: &[MachineFacts], replicas: usize) -> bool {
    let servers = || machines.iter().filter(|machine| machine.control_plane);
    servers().count() > 1 || replicas > 1 || servers().any(|machine| machine.deleting || machine.is_ill)
}

/// Records which servers etcd reports as healthy; no change while that is unknown.
pub fn hear_of(machines: &mut [MachineFacts], etcd: &EtcdView) {
    let EtcdView::Known(members) = etcd else { return };
    for machine in machines.iter_mut().filter(|machine| machine.control_plane) {
        let member = quorum::member_of(members, machine.node_name(), &machine.addresses);
        machine.is_heard_of = member.is_some_and(|member| member.is_healthy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixtures::members;

    #[test]
    fn one_that_stays_alone_is_its_own_majority() {
        let (server, worker) = (|name| MachineFacts::server(name).up(), MachineFacts::worker("w").up());
        for (machines, replicas, expected) in [
            (vec![server("a"), worker], 1, false),
            (vec![server("a")], 3, true),
            (vec![server("a"), server("b")], 1, true),
            (vec![server("a").leaving()], 1, true),
            (vec![server("a").with(|m| m.is_ill = true)], 1, true),
        ] {
            assert_eq!(counts(&machines, replicas), expected, "{machines:?}");
        }
    }

    #[test]
    fn a_machine_is_heard_of_while_its_member_is_well() {
        let mut machines = ["a", "b", "c"].map(|name| MachineFacts::server(name).up());
        let heard = |machines: &[MachineFacts]| -> Vec<bool> {
            machines.iter().map(|machine| machine.is_heard_of).collect()
        };
        hear_of(&mut machines, &EtcdView::Known(members("a+ b-")));
        assert_eq!(heard(&machines), [true, false, false]);
        hear_of(&mut machines, &EtcdView::unknown("no answer"));
        assert_eq!(heard(&machines), [true, false, false]);
    }
}
