//! The end of a control plane: workers first, then its machines, then itself.

use crate::facts::MachineFacts;

/// The next step of the deletion of a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// These workers still need the control plane.
    Workers(Vec<String>),
    /// These machines must be deleted; those that are being deleted are waited for.
    Machines {
        /// To be deleted now.
        delete: Vec<String>,
        /// Still there.
        left: Vec<String>,
    },
    /// No machine is left.
    Done,
}

/// The next step of the deletion.
pub fn decide(machines: &[MachineFacts]) -> Ending {
    let own = || machines.iter().filter(|machine| machine.control_plane);
    if own().next().is_none() {
        return Ending::Done;
    }
    let workers: Vec<String> = machines
        .iter()
        .filter(|machine| !machine.control_plane)
        .map(|machine| machine.name.clone())
        .collect();
    if !workers.is_empty() {
        return Ending::Workers(workers);
    }
    Ending::Machines {
        delete: own().filter(|machine| !machine.deleting).map(|machine| machine.name.clone()).collect(),
        left: own().map(|machine| machine.name.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_go_first_then_all_machines_then_the_rest() {
        let (a, b, w) = (MachineFacts::server("a"), MachineFacts::server("b"), MachineFacts::worker("w"));
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(decide(&[a.clone(), w.clone()]), Ending::Workers(names(&["w"])));
        assert_eq!(decide(&[a.clone(), w.clone().leaving()]), Ending::Workers(names(&["w"])));
        assert_eq!(
            decide(&[a.leaving(), b]),
            Ending::Machines { delete: names(&["b"]), left: names(&["a", "b"]) }
        );
        // Without machines of its own there is nothing to wait for.
        assert_eq!(decide(&[w]), Ending::Done);
        assert_eq!(decide(&[]), Ending::Done);
    }
}
