//! Which Machines that were handed over are still to be counted. Pure.

use capstan_api::core::{Machine, MachineSet};
use capstan_controller::owners;
use std::collections::BTreeSet;

use crate::machineset::machine::is_annotated;
use crate::machineset::names::in_place;
use crate::machineset::scale::annotation;

/// Machines that the new MachineSet has received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// Those that have not finished moving in, whether counted or not.
    pub(crate) all: BTreeSet<String>,
    /// How many of them have not been counted in `spec.replicas` of the new MachineSet.
    pub(crate) uncounted: i32,
}

impl Received {
    /// Looks for Machines that `new` has received.
    pub(crate) fn by(new: &MachineSet, machines: &[Machine]) -> Self {
        let counted = annotation(new, in_place::ACKNOWLEDGED_MOVE).unwrap_or_default();
        let counted: BTreeSet<&str> = counted.split(',').collect();
        let all: BTreeSet<String> = machines
            .iter()
            .filter(|machine| owners::is_controlled_by(&machine.metadata, new))
            .filter(|machine| is_annotated(machine, in_place::PENDING_ACKNOWLEDGE_MOVE))
            .map(kube::ResourceExt::name_any)
            .collect();
        let uncounted = all.iter().filter(|name| !counted.contains(name.as_str())).count();
        Self { all, uncounted: crate::machineset::status::whole(uncounted) }
    }

    /// For the annotation of the new MachineSet that lists the Machines which are counted.
    pub(crate) fn text(&self) -> Option<String> {
        let names: Vec<&str> = self.all.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machineset::desired::controller;
    use crate::machineset::fixtures::{machine, machine_set};
    use serde_json::json;

    #[test]
    fn a_machine_is_counted_once() {
        let moved = |name: &str, set: &MachineSet| {
            machine(name)
                .annotated(in_place::PENDING_ACKNOWLEDGE_MOVE)
                .change(|machine| {
                    machine.metadata.owner_references = controller(set).map(|owner| vec![owner]);
                })
                .done()
        };
        let new = |counted: &str| {
            machine_set(
                "new",
                1,
                &json!({"metadata": {"annotations": {in_place::ACKNOWLEDGED_MOVE: counted}}}),
            )
        };
        let other = machine_set("other", 1, &json!({}));
        for (counted, names, uncounted, text) in [
            ("", vec![], 0, None),
            ("", vec!["m2"], 1, Some("m2")),
            ("m1", vec!["m1", "m2"], 1, Some("m1,m2")),
            ("m2", vec!["m2"], 0, Some("m2")),
            // It has moved in.
            ("m2", vec![], 0, None),
        ] {
            let new = new(counted);
            let mut machines: Vec<Machine> = names.iter().map(|name| moved(name, &new)).collect();
            machines.push(moved("elsewhere", &other));
            machines.push(machine("settled").done());
            let received = Received::by(&new, &machines);
            assert_eq!(
                (received.uncounted, received.text().as_deref()),
                (uncounted, text),
                "{counted} {names:?}"
            );
        }
    }
}
