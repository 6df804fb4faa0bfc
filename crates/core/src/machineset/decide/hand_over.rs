//! What a Machine becomes when it changes hands, and when its update begins. Pure.

use capstan_api::core::{Machine, MachineSet};
use capstan_api::meta::labels;
use capstan_controller::merge::difference;
use capstan_controller::{in_place as marks, owners};
use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::super::names::in_place;
use super::desired;
use super::machine::{is_annotated, is_deleting};
use super::scale::annotation;

/// One write, so that a Machine never belongs to one MachineSet and has the labels of the other.
pub(in crate::machineset) fn hand_over_patch(
    machine: &Machine,
    from: &MachineSet,
    to: &MachineSet,
) -> Option<Value> {
    let after = handed_over(machine, from, to)?;
    let value = |metadata| serde_json::to_value(metadata).ok();
    let mut patch = difference(&value(&machine.metadata)?, &value(&after)?)?;
    // The list of owners is replaced whole, so it must not have changed meanwhile.
    patch["resourceVersion"] = json!(machine.resource_version());
    Some(json!({ "metadata": patch }))
}

/// What a Machine's metadata is once it belongs to the other MachineSet.
pub(crate) fn handed_over(machine: &Machine, from: &MachineSet, to: &MachineSet) -> Option<ObjectMeta> {
    let hash = to.labels().get(labels::MACHINE_TEMPLATE_HASH)?;
    let mut metadata = machine.metadata.clone();
    owners::remove(&mut metadata, &owners::plain(from)?);
    owners::ensure(&mut metadata, &desired::controller(to)?);
    metadata.labels.get_or_insert_default().insert(labels::MACHINE_TEMPLATE_HASH.to_owned(), hash.clone());
    for mark in [in_place::UPDATE_IN_PROGRESS, in_place::PENDING_ACKNOWLEDGE_MOVE] {
        metadata.annotations.get_or_insert_default().insert(mark.to_owned(), String::new());
    }
    Some(metadata)
}

/// Whether the update of a Machine is to begin: it is acknowledged here, or its hand-over was cancelled, and it is
/// updated like any other Machine.
pub(crate) fn is_received(set: &MachineSet, machine: &Machine) -> bool {
    let is_waiting = is_annotated(machine, in_place::PENDING_ACKNOWLEDGE_MOVE)
        && annotation(set, in_place::RECEIVE_MACHINES_FROM).is_some();
    let counted = annotation(set, in_place::ACKNOWLEDGED_MOVE).unwrap_or_default();
    let is_counted = counted.split(',').any(|name| name == machine.name_any());
    marks::is_being_written(&machine.metadata) && !is_deleting(machine) && (!is_waiting || is_counted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machineset::fixtures::{machine, machine_set};
    use capstan_api::runtime::annotations::PENDING_HOOKS;

    #[test]
    fn a_machine_changes_hands_in_one_write() {
        let from = machine_set("old", 2, &json!({}));
        let to = machine_set(
            "new",
            0,
            &json!({"metadata": {"labels": {labels::MACHINE_TEMPLATE_HASH: "7-abcde"}},
                "spec": {"template": {"spec": {"version": "v1.35.0"}}}}),
        );
        let machine = machine("m")
            .change(|machine| {
                owners::ensure(&mut machine.metadata, &desired::controller(&from).expect("a test value"));
            })
            .done();
        let patch = hand_over_patch(&machine, &from, &to).expect("a test value");
        let owners = patch["metadata"]["ownerReferences"].as_array().expect("a test value");
        assert_eq!(owners.len(), 1);
        assert_eq!((&owners[0]["name"], &owners[0]["controller"]), (&json!("new"), &json!(true)));
        assert_eq!(patch["metadata"]["labels"][labels::MACHINE_TEMPLATE_HASH], "7-abcde");
        assert!(patch.get("spec").is_none(), "what it should become is written by the new MachineSet");
        assert!(hand_over_patch(&machine, &from, &machine_set("new", 0, &json!({}))).is_none());
    }

    #[test]
    fn an_update_begins_once_the_machine_is_counted() {
        let receiving = |counted: &str| {
            let annotations =
                json!({in_place::RECEIVE_MACHINES_FROM: "old", in_place::ACKNOWLEDGED_MOVE: counted});
            machine_set("new", 1, &json!({"metadata": {"annotations": annotations}}))
        };
        let plain = || machine_set("new", 1, &json!({}));
        let marked = || machine("m").annotated(in_place::UPDATE_IN_PROGRESS);
        let moved = || marked().annotated(in_place::PENDING_ACKNOWLEDGE_MOVE);
        let running = marked().change(|machine| {
            machine.annotations_mut().insert(PENDING_HOOKS.to_owned(), "UpdateMachine".to_owned());
        });
        for (case, set, machine, expected) in [
            ("others are counted", receiving("a,b"), moved(), false),
            ("counted", receiving("a,m"), moved(), true),
            ("nobody wants it any more", plain(), moved(), true),
            ("never handed over", receiving("a"), marked(), true),
            ("not updating", receiving("m"), machine("m"), false),
            ("begun already", receiving("m"), running, false),
            ("on its way out", receiving("m"), moved().deleting(), false),
        ] {
            assert_eq!(is_received(&set, &machine.done()), expected, "{case}");
        }
    }
}
