//! Whether Machines are made, deleted or handed over, and which. Pure.

use capstan_api::core::{Machine, MachineSet};
use capstan_api::keep;
use capstan_api::meta::annotations;
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::super::names::in_place;
use super::machine::{has_node, is_annotated, is_deleting, is_to_be_remediated, is_updating};
use super::priority::first_to_go;

/// How the number of Machines must change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The number is right.
    Stay,
    /// There are too few, and an annotation disables the creation of Machines.
    Held,
    /// This number of Machines is missing.
    Create(usize),
    /// These Machines are too many. Some may already be terminating.
    Delete(Vec<String>),
    /// The surplus Machines are handed over to another MachineSet.
    HandOver {
        /// The other MachineSet.
        to: String,
        /// Those that go there.
        hand_over: Vec<String>,
        /// Unhealthy ones, which are deleted in any case.
        delete: Vec<String>,
    },
}

impl Scale {
    /// Whether a Machine would be created, deleted or handed over. One that is already terminating is not deleted
    /// again.
    pub fn acts(&self, machines: &[Machine]) -> bool {
        let is_alive = |name: &String| {
            let machine = machines.iter().find(|machine| machine.name_any() == *name);
            machine.is_none_or(|machine| !is_deleting(machine))
        };
        match self {
            Self::Stay | Self::Held => false,
            Self::Create(_) => true,
            Self::Delete(names) => names.iter().any(is_alive),
            Self::HandOver { hand_over, delete, .. } => !hand_over.is_empty() || delete.iter().any(is_alive),
        }
    }
}

/// Compares the Machines of a MachineSet with its replica count.
pub fn decide(set: &MachineSet, machines: &[Machine], now: Timestamp) -> Scale {
    let wanted = usize::try_from(set.spec.replicas.unwrap_or(1)).unwrap_or(0);
    if machines.len() < wanted {
        let held = set.annotations().get(annotations::DISABLE_MACHINE_CREATE).is_some_and(|v| v == "true");
        return if held { Scale::Held } else { Scale::Create(wanted - machines.len()) };
    }
    // Machines that have just come from another MachineSet are not in `spec.replicas` yet.
    let receives = annotation(set, in_place::RECEIVE_MACHINES_FROM).is_some();
    let is_new_here = |m: &&Machine| receives && is_annotated(m, in_place::PENDING_ACKNOWLEDGE_MOVE);
    let too_many = (machines.len() - machines.iter().filter(is_new_here).count()).saturating_sub(wanted);
    if too_many == 0 {
        return Scale::Stay;
    }
    let order = set.spec.deletion.as_ref().and_then(|deletion| deletion.order).unwrap_or_default();
    let candidates = first_to_go(machines, order, now);
    match annotation(set, in_place::MOVE_MACHINES_TO) {
        Some(to) => hand_over(to, &candidates, too_many),
        None => Scale::Delete(names(candidates.into_iter().take(too_many))),
    }
}

fn hand_over(to: &str, candidates: &[&Machine], mut too_many: usize) -> Scale {
    let (mut hand_over, mut delete) = (vec![], vec![]);
    for machine in candidates {
        if too_many == 0 {
            break;
        }
        if is_deleting(machine) {
            too_many -= 1;
        } else if is_to_be_remediated(machine) && !keep::is_kept(&machine.spec) {
            delete.push(machine.name_any());
            too_many -= 1;
        } else if has_node(machine) && !is_updating(machine) && !keep::is_held(machine) {
            hand_over.push(machine.name_any());
            too_many -= 1;
        }
        // Others are not ready to go: one that is still being changed, has no Node to be changed, or is held by the user.
    }
    Scale::HandOver { to: to.to_owned(), hand_over, delete }
}

pub(crate) fn annotation<'a>(set: &'a MachineSet, key: &str) -> Option<&'a str> {
    set.annotations().get(key).map(String::as_str).filter(|value| !value.is_empty())
}

fn names<'a>(machines: impl Iterator<Item = &'a Machine>) -> Vec<String> {
    machines.map(kube::ResourceExt::name_any).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machineset::fixtures::{machine, machine_set};
    use serde_json::{Value, json};

    fn annotated(key: &str, value: &str) -> Value {
        json!({"metadata": {"annotations": {key: value}}})
    }

    fn machines(names: &[&str]) -> Vec<Machine> {
        names.iter().map(|name| machine(name).with_node().done()).collect()
    }

    #[test]
    fn the_difference_decides() {
        let disabled = annotated(annotations::DISABLE_MACHINE_CREATE, "true");
        let enabled = annotated(annotations::DISABLE_MACHINE_CREATE, "false");
        for (replicas, fields, have, expected) in [
            (3, json!({}), machines(&["a"]), Scale::Create(2)),
            (3, disabled, machines(&["a"]), Scale::Held),
            (3, enabled, machines(&["a"]), Scale::Create(2)),
            (1, json!({}), machines(&["a"]), Scale::Stay),
            (1, json!({}), machines(&["a", "b", "c"]), Scale::Delete(vec!["a".into(), "b".into()])),
            (0, json!({}), machines(&[]), Scale::Stay),
        ] {
            let set = machine_set("ms", replicas, &fields);
            assert_eq!(decide(&set, &have, Timestamp::UNIX_EPOCH), expected, "{replicas} {fields}");
        }
    }

    #[test]
    fn machines_on_their_way_out_are_not_deleted_twice() {
        let set = machine_set("ms", 2, &json!({}));
        let mut have = machines(&["a", "b"]);
        have.push(machine("z").deleting().done());
        assert_eq!(decide(&set, &have, Timestamp::UNIX_EPOCH), Scale::Delete(vec!["z".into()]));
    }

    #[test]
    fn nothing_is_done_while_all_that_go_are_going() {
        let have = [machine("a").with_node().done(), machine("z").deleting().done()];
        let hand_over = |hand_over: &[&str], delete: &[&str]| Scale::HandOver {
            to: "new".into(),
            hand_over: hand_over.iter().map(ToString::to_string).collect(),
            delete: delete.iter().map(ToString::to_string).collect(),
        };
        for (scale, acts) in [
            (Scale::Stay, false),
            (Scale::Held, false),
            (Scale::Create(1), true),
            (Scale::Delete(vec!["z".into()]), false),
            (Scale::Delete(vec!["z".into(), "a".into()]), true),
            (hand_over(&[], &[]), false),
            (hand_over(&["a"], &[]), true),
            (hand_over(&[], &["a"]), true),
        ] {
            assert_eq!(scale.acts(&have), acts, "{scale:?}");
        }
    }

    #[test]
    fn machines_that_have_just_arrived_are_not_too_many() {
        let mut have = machines(&["a"]);
        have.push(machine("b").with_node().annotated(in_place::PENDING_ACKNOWLEDGE_MOVE).done());
        let receiving = machine_set("ms", 1, &annotated(in_place::RECEIVE_MACHINES_FROM, "old"));
        assert_eq!(decide(&receiving, &have, Timestamp::UNIX_EPOCH), Scale::Stay);
        let not_receiving = machine_set("ms", 1, &json!({}));
        assert!(matches!(decide(&not_receiving, &have, Timestamp::UNIX_EPOCH), Scale::Delete(_)));
    }

    #[test]
    fn healthy_machines_are_handed_over_and_sick_ones_deleted() {
        let set = machine_set("old", 0, &annotated(in_place::MOVE_MACHINES_TO, "new"));
        let sick = machine("sick")
            .with_node()
            .condition("HealthCheckSucceeded", false)
            .condition("OwnerRemediated", false)
            .done();
        let mut have = machines(&["a", "b"]);
        have.extend([
            sick,
            machine("no-node").done(),
            machine("updating").with_node().annotated(in_place::UPDATE_IN_PROGRESS).done(),
            machine("deleting").deleting().done(),
        ]);
        let expected = Scale::HandOver {
            to: "new".into(),
            hand_over: vec!["a".into(), "b".into()],
            delete: vec!["sick".into()],
        };
        assert_eq!(decide(&set, &have, Timestamp::UNIX_EPOCH), expected);
    }
}
