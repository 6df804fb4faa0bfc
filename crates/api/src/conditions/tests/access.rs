//! Reading conditions.

use kube::CustomResource;
use kube::core::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fixtures::{F, T, Thing, U, at, condition};
use crate::conditions::{
    Condition, Conditioned, NewCondition, Owner, delete, get, has, is_false, is_true, is_unknown, set,
};
use crate::meta::labels;

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "test.example.com", version = "v1", kind = "Machine", status = "TypedStatus", namespaced)]
struct TypedSpec {}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct TypedStatus {
    conditions: Vec<Condition>,
}

crate::status_conditions!(TypedStatus);

fn typed() -> Machine {
    Machine::new("m-1", TypedSpec {})
}

#[test]
fn an_absent_condition_is_unknown_and_neither_true_nor_false() {
    let object = Thing::new(
        "Thing",
        "a",
        vec![condition("Yes", T, ""), condition("No", F, ""), condition("Perhaps", U, "")],
    );
    let answers = |type_| {
        (has(&object, type_), is_true(&object, type_), is_false(&object, type_), is_unknown(&object, type_))
    };
    assert_eq!(answers("Yes"), (true, true, false, false));
    assert_eq!(answers("No"), (true, false, true, false));
    assert_eq!(answers("Perhaps"), (true, false, false, true));
    assert_eq!(answers("Absent"), (false, false, false, true));
    assert_eq!(get(&object, "No"), Some(&object.conditions[1]));
}

#[test]
fn a_derived_kind_without_status_has_no_conditions_and_gets_a_status_when_one_is_set() {
    let mut machine = typed();
    machine.metadata.generation = Some(4);
    assert_eq!(machine.conditions(), []);

    assert!(!delete(&mut machine, "Ready"));
    assert!(machine.status.is_none(), "deleting nothing must not make a status");

    assert!(set(&mut machine, NewCondition::new("Ready", true, "Ready"), at(7)));
    let expected = condition("Ready", T, "").because("Ready").since(7).of_generation(4);
    assert_eq!(machine.status.unwrap().conditions, [expected]);
}

#[test]
fn a_derived_kind_is_called_by_its_kind_and_name() {
    let machine = typed();
    let expected = Owner { kind: "Machine".into(), name: "m-1", is_control_plane_machine: false };
    assert_eq!(machine.owner(), expected);
}

#[test]
fn only_machines_with_the_label_are_control_plane_machines() {
    let labelled = ObjectMeta {
        labels: Some([(labels::CONTROL_PLANE.to_owned(), String::new())].into()),
        ..ObjectMeta::default()
    };
    let plain = ObjectMeta::default();
    assert!(Owner::new("Machine", &labelled).is_control_plane_machine);
    assert!(!Owner::new("Machine", &plain).is_control_plane_machine);
    assert!(!Owner::new("MachineSet", &labelled).is_control_plane_machine);
}

#[test]
fn objects_of_different_kinds_can_stand_in_one_list() {
    let (machine, thing) = (typed(), Thing::new("Thing", "a", vec![]));
    let objects: [&dyn Conditioned; 2] = [&machine, &thing];
    assert_eq!(objects.map(|object| object.owner().kind.into_owned()), ["Machine", "Thing"]);
}
