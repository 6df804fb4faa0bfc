//! The members of a cluster's etcd, and what they can bear.
//!
//! Who is a member is read from etcd itself, never from Nodes or labels.

pub mod quorum;

use crate::facts::{EtcdView, MachineFacts};

/// One member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its identity.
    pub id: u64,
    /// Its name; empty until it has been started for the first time.
    pub name: String,
    /// Where other members reach it, as URLs.
    pub peer_urls: Vec<String>,
    /// Where clients reach it, as URLs; none until it has been started for the first time.
    pub client_urls: Vec<String>,
    /// Whether it has no vote yet.
    pub is_learner: bool,
    /// Whether it answers, knows a leader, and has no complaint.
    pub is_healthy: bool,
}

/// The members, at one moment, as a quorum of them says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// All of them.
    pub members: Vec<Member>,
    /// Who leads, if anybody does.
    pub leader: Option<u64>,
}

/// Whether it counts who the members are: one that is alone and stays alone is its own majority.
pub fn counts(machines: &[MachineFacts], replicas: usize) -> bool {
    let servers = || machines.iter().filter(|machine| machine.control_plane);
    servers().count() > 1 || replicas > 1 || servers().any(|machine| machine.deleting || machine.is_ill)
}

/// Notes of which servers etcd hears; nothing while that is unknown.
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
