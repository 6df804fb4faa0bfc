//! Which kept machines a scale-down may take. Pure.
//!
//! A lower number says how many machines go, not which. A machine that holds volumes of users goes only if the user
//! names it, or if the policy allows that it is lost.

use capstan_api::core::{Machine, MachineDeployment, MachineSet};
use capstan_api::keep::{self, ReplacePolicy};
use capstan_api::meta::annotations;
use capstan_api::runtime::annotations::REPLACE_POLICY;
use capstan_controller::Knowledge;
use capstan_controller::remote::LocalVolumes;
use capstan_controller::text::listed;
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::machine::{is_annotated, is_deleting};
use super::priority::first_to_go;

/// So many volumes of a machine are named.
const MOST_NAMES: usize = 3;

/// The Machines that a scale-down deletes, and why others are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScaleDown {
    /// Machines to delete.
    pub delete: Vec<String>,
    /// Why other Machines are kept, and what the user can do.
    pub held: Vec<String>,
}

/// Selects `number` of the machines, those first that are first in the deletion order. Machines that are being deleted
/// count.
pub fn choose(
    set: &MachineSet,
    owner: Option<&MachineDeployment>,
    machines: &[Machine],
    number: usize,
    volumes: &Knowledge<LocalVolumes>,
    now: Timestamp,
) -> ScaleDown {
    let order = set.spec.deletion.as_ref().and_then(|deletion| deletion.order).unwrap_or_default();
    let (mut chosen, mut held) = (ScaleDown::default(), Vec::new());
    for machine in first_to_go(machines, order, now) {
        if chosen.delete.len() == number {
            return chosen;
        }
        match obstacle(set, owner, machine, volumes) {
            None => chosen.delete.push(machine.name_any()),
            Some(why) => held.push(why),
        }
    }
    chosen.held = held;
    chosen
}

fn obstacle(
    set: &MachineSet,
    owner: Option<&MachineDeployment>,
    machine: &Machine,
    volumes: &Knowledge<LocalVolumes>,
) -> Option<String> {
    let name = machine.name_any();
    if is_deleting(machine) || is_annotated(machine, annotations::DELETE_MACHINE) {
        return None;
    }
    if keep::is_held(machine) {
        return Some(format!("Machine {name} has the annotation {}", keep::HOLD));
    }
    let objects = [Some(&machine.metadata), Some(&set.metadata), owner.map(|owner| &owner.metadata)];
    match ReplacePolicy::first(objects.into_iter().flatten()) {
        Ok(ReplacePolicy::WhenNeeded) => return None,
        Ok(ReplacePolicy::Never) => {}
        Err(misspelt) => return Some(format!("Machine {name} is kept: {misspelt}")),
    }
    // What never became a Node holds nothing.
    let node = machine.status.as_ref().and_then(|status| status.node_ref.as_ref())?;
    let remedy = format!(
        "annotate the Machine that should go with {}, or set the annotation {REPLACE_POLICY} to WhenNeeded",
        annotations::DELETE_MACHINE
    );
    match volumes {
        Knowledge::Unknown(why) => Some(format!(
            "Machine {name} is kept, because it is not known which volumes it holds: {why}; {remedy}"
        )),
        Knowledge::Known(volumes) => volumes.get(&node.name).map(|held| {
            let held = listed(held, MOST_NAMES);
            format!("Machine {name} is kept, because volumes of users are on it ({held}): {remedy}")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machineset::fixtures::{machine, machine_set};
    use serde_json::json;

    fn chosen(machines: &[Machine], number: usize, volumes: &Knowledge<LocalVolumes>) -> ScaleDown {
        choose(&machine_set("ms", 0, &json!({})), None, machines, number, volumes, Timestamp::UNIX_EPOCH)
    }

    fn on(node: &str) -> Knowledge<LocalVolumes> {
        Knowledge::Known(LocalVolumes::from([(node.to_owned(), vec!["pvc-1".to_owned()])]))
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn machines_with_data_go_only_when_they_are_named() {
        let three = || ["a", "b", "c"].map(|name| machine(name).with_node().done());
        assert_eq!(chosen(&three(), 2, &on("a")).delete, names(&["b", "c"]));
        let held = chosen(&three(), 3, &on("a"));
        assert_eq!(held.delete, names(&["b", "c"]));
        assert!(held.held[0].contains("(pvc-1)") && held.held[0].contains("delete-machine"), "{held:?}");
        let mut named = three();
        named[0].annotations_mut().insert(annotations::DELETE_MACHINE.to_owned(), String::new());
        assert_eq!(chosen(&named, 1, &on("a")).delete, names(&["a"]));
        let mut allowed = three();
        allowed[0].annotations_mut().insert(REPLACE_POLICY.to_owned(), "WhenNeeded".to_owned());
        assert_eq!(chosen(&allowed, 1, &on("a")).delete, names(&["a"]));
    }

    #[test]
    fn unknown_volumes_hold_a_scale_down() {
        let unknown = Knowledge::unknown("no answer");
        let machines = [machine("a").with_node().done(), machine("b").done(), machine("c").deleting().done()];
        let held = chosen(&machines, 3, &unknown);
        assert_eq!(held.delete, names(&["c", "b"]), "what has no Node holds nothing");
        assert!(held.held[0].contains("no answer"));
    }

    #[test]
    fn a_held_machine_stays() {
        let mut machines = ["a", "b"].map(|name| machine(name).with_node().done());
        machines[0].annotations_mut().insert(keep::HOLD.to_owned(), "mine".to_owned());
        let none = Knowledge::Known(LocalVolumes::new());
        assert_eq!(chosen(&machines, 1, &none).delete, names(&["b"]));
        assert_eq!(chosen(&machines, 2, &none).delete, names(&["b"]));
    }
}
