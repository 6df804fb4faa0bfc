//! Which machine begins the cluster.
//!
//! There is one such machine in a cluster's life. Its name is written down by compare and swap before it gets its
//! plan, so that neither a crash nor a second manager can find another one.

use crate::facts::MachineFacts;

/// Who was elected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elected {
    /// Name of the Machine.
    pub name: String,
    /// Identity of the machine.
    pub id: String,
}

impl Elected {
    /// Reads what was written down.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, id) = text.split_once('/')?;
        Some(Self { name: name.to_owned(), id: id.to_owned() })
    }

    /// What is written down.
    pub fn record(&self) -> String {
        format!("{}/{}", self.name, self.id)
    }

    fn is(&self, machine: &MachineFacts) -> bool {
        // By name as well: the identity stands on another object, which may be gone before the Machine is.
        machine.name == self.name || machine.id.as_deref() == Some(&self.id)
    }
}

/// What is to be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Election {
    /// It stands, or is over for good.
    Settled,
    /// This one, from now on.
    Elect(Elected),
    /// There is nobody to elect yet.
    Wait,
}

/// After the cluster has begun nobody is elected any more, whatever becomes of the machine that began it. Before, a
/// machine that is gone, with its host cleaned, makes room for another.
pub fn elect(record: Option<&Elected>, machines: &[MachineFacts], initialized: bool) -> Election {
    let stands = record.is_some_and(|elected| machines.iter().any(|machine| elected.is(machine)));
    if initialized || stands {
        return Election::Settled;
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

/// Whether the machine that begins the cluster has carried out its plan. One on its way out takes with it what it began:
/// another one begins then.
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
        assert_eq!(elect(Some(&elected("b")), &machines, false), Election::Settled);
        // Also while it is on its way out, or has lost its identity.
        let leaving = [server("a"), server("b").leaving()];
        assert_eq!(elect(Some(&elected("b")), &leaving, false), Election::Settled);
        let lost = [server("a"), MachineFacts::server("b")];
        assert_eq!(elect(Some(&elected("b")), &lost, false), Election::Settled);
        // Once it is gone and nothing had begun, there is room for another.
        assert_eq!(elect(Some(&elected("c")), &machines, false), Election::Elect(elected("a")));
        // Not once the cluster has begun.
        for record in [None, Some(&elected("c")), Some(&elected("a"))] {
            assert_eq!(elect(record, &machines, true), Election::Settled);
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
