//! Which machine begins the cluster.
//!
//! There is one such machine in a cluster's life. Its name is written down by compare and swap before it gets its
//! plan, so that neither a crash nor a second manager can find another one.

use crate::facts::MachineFacts;

/// The machine that was elected to initialize the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elected {
    /// Name of the Machine.
    pub name: String,
    /// Machine ID.
    pub id: String,
}

impl Elected {
    /// Parses the record.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, id) = text.split_once('/')?;
        Some(Self { name: name.to_owned(), id: id.to_owned() })
    }

    /// The record, as it is written.
    pub fn record(&self) -> String {
        format!("{}/{}", self.name, self.id)
    }

    fn is(&self, machine: &MachineFacts) -> bool {
        // By name as well: the identity stands on another object, which may be gone before the Machine is.
        machine.name == self.name || machine.id.as_deref() == Some(&self.id)
    }
}

/// What to do about the election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Election {
    /// A machine is elected, or the cluster is initialized.
    Decided,
    /// Elect this machine.
    Elect(Elected),
    /// There is no candidate yet.
    Wait,
}

/// Elects a machine. When the cluster is initialized there is no further election, whatever happens to the elected
/// machine. Before that, an elected machine that is deleted, with its host reset, is replaced by another one.
pub fn elect(record: Option<&Elected>, machines: &[MachineFacts], initialized: bool) -> Election {
    let stands = record.is_some_and(|elected| machines.iter().any(|machine| elected.is(machine)));
    if initialized || stands {
        return Election::Decided;
    }
    let candidate = machines
        .iter()
        .filter(|machine| machine.control_plane && !machine.deleting && machine.provider_id.is_some())
        .filter_map(|machine| machine.id.as_ref().map(|id| (machine, id)))
        .min_by_key(|(machine, _)| machine.age());
    match candidate {
        Some((machine, id)) => Election::Elect(Elected { name: machine.name.clone(), id: id.clone() }),
        None => Election::Wait,
    }
}

/// Whether the elected machine has applied its plan. If it is being deleted, what it initialized is lost, and another
/// machine is elected.
pub fn has_begun(record: Option<&Elected>, machines: &[MachineFacts]) -> bool {
    let is_it =
        |machine: &MachineFacts| record.is_some_and(|elected| machine.id.as_deref() == Some(&elected.id));
    machines.iter().any(|machine| machine.is_applied() && !machine.deleting && is_it(machine))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elected(name: &str) -> Elected {
        Elected { name: name.to_owned(), id: format!("id-of-{name}") }
    }

    fn server(name: &str) -> MachineFacts {
        MachineFacts::server(name).provisioned()
    }

    #[test]
    fn the_oldest_that_is_ready_for_a_plan_is_elected() {
        let chosen = |name| Election::Elect(elected(name));
        for (machines, expected) in [
            (vec![], Election::Wait),
            (vec![MachineFacts::server("a")], Election::Wait),
            (vec![MachineFacts::worker("w").provisioned()], Election::Wait),
            (vec![server("a").leaving()], Election::Wait),
            (vec![server("b"), server("a")], chosen("a")),
            (vec![server("b").born(1), server("a").born(2)], chosen("b")),
            (vec![MachineFacts::server("a"), server("b").born(9)], chosen("b")),
        ] {
            assert_eq!(elect(None, &machines, false), expected, "{machines:?}");
        }
    }

    #[test]
    fn nobody_is_elected_twice() {
        let machines = [server("a"), server("b")];
        assert_eq!(elect(Some(&elected("b")), &machines, false), Election::Decided);
        // Also while it is on its way out, or has lost its identity.
        let leaving = [server("a"), server("b").leaving()];
        assert_eq!(elect(Some(&elected("b")), &leaving, false), Election::Decided);
        let lost = [server("a"), MachineFacts::server("b")];
        assert_eq!(elect(Some(&elected("b")), &lost, false), Election::Decided);
        // Once it is gone and nothing had begun, there is room for another.
        assert_eq!(elect(Some(&elected("c")), &machines, false), Election::Elect(elected("a")));
        // Not once the cluster has begun.
        for record in [None, Some(&elected("c")), Some(&elected("a"))] {
            assert_eq!(elect(record, &machines, true), Election::Decided);
        }
    }

    #[test]
    fn the_cluster_begins_with_the_plan_of_the_elected() {
        let up = || server("a").up();
        let begun = |machine: MachineFacts| has_begun(Some(&elected("a")), &[machine, server("b").up()]);
        assert!(begun(up()));
        assert!(!begun(up().leaving()));
        assert!(!begun(server("a").planned(1, "a")));
        assert!(!has_begun(None, &[up()]));
    }

    #[test]
    fn the_record_reads_back() {
        assert_eq!(Elected::parse(&elected("a").record()), Some(elected("a")));
        assert_eq!(Elected::parse("a"), None);
    }
}
