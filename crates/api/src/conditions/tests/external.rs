//! Conditions of objects that are not known as a type.

use serde_json::{Value, json};

use super::fixtures::{F, T, U, at, condition};
use crate::conditions::{Condition, Conditioned, External, Owner};

fn read(status: &Value) -> Result<Vec<Condition>, String> {
    let object = json!({"kind": "DockerCluster", "metadata": {"name": "c"}, "status": status});
    External::read(&object, at(99))
        .map(|object| object.conditions().to_vec())
        .map_err(|error| error.to_string())
}

fn read_one(condition: &Value) -> Result<Vec<Condition>, String> {
    read(&json!({"conditions": [condition]}))
}

#[test]
fn todays_conditions_are_read_whole() {
    let conditions = json!({"conditions": [{
        "type": "Ready", "status": "False", "observedGeneration": 3, "reason": "Because", "message": "so",
        "lastTransitionTime": "2023-11-14T22:13:25Z",
    }]});
    assert_eq!(
        read(&conditions).unwrap(),
        [condition("Ready", F, "so").because("Because").since(5).of_generation(3)]
    );
}

#[test]
fn v1beta1_conditions_are_read_without_severity_and_with_a_reason() {
    let conditions = json!({"conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2023-11-14T22:13:25Z"},
        {"type": "Up", "status": "Unknown", "severity": "Info", "reason": "Why", "lastTransitionTime": "2023-11-14T22:13:26Z"},
    ]});
    let expected = [
        condition("Ready", T, "").because("NoReasonReported").since(5),
        condition("Up", U, "").because("Why").since(6),
    ];
    assert_eq!(read(&conditions).unwrap(), expected);
}

#[test]
fn the_newer_place_wins_if_it_holds_a_list() {
    let one = |type_| json!([{"type": type_, "status": "True"}]);
    let cases = [
        (json!({"v1beta2": {"conditions": one("New")}, "conditions": one("Old")}), vec!["New"]),
        (json!({"v1beta2": {"conditions": []}, "conditions": one("Old")}), vec![]),
        (json!({"v1beta2": {"conditions": null}, "conditions": one("Old")}), vec!["Old"]),
        (json!({"v1beta2": {}, "conditions": one("Old")}), vec!["Old"]),
        (json!({"v1beta2": "text", "conditions": one("Old")}), vec!["Old"]),
        (json!({"deprecated": {"v1beta1": {"conditions": one("Oldest")}}}), vec![]),
    ];
    for (status, expected) in cases {
        let types: Vec<_> = read(&status).unwrap().into_iter().map(|condition| condition.type_).collect();
        assert_eq!(types, expected, "{status}");
    }
}

#[test]
fn what_is_not_a_list_of_objects_is_passed_over() {
    for status in [json!(null), json!({}), json!("text"), json!({"conditions": {"type": "Ready"}})] {
        assert_eq!(read(&status).unwrap(), [], "{status}");
    }
    let mixed = json!({"conditions": [null, "text", {"type": "Ready", "status": "True"}, 7]});
    assert_eq!(read(&mixed).unwrap().len(), 1);
}

#[test]
fn a_missing_time_is_now() {
    for time in [json!(null), json!(""), json!("null")] {
        let conditions =
            read_one(&json!({"type": "Ready", "status": "True", "lastTransitionTime": time})).unwrap();
        assert_eq!(conditions, [condition("Ready", T, "").because("NoReasonReported").since(99)]);
    }
}

#[test]
fn errors_are_worded_as_users_know_them() {
    let cases = [
        (json!({"status": "True"}), "type must be set for all conditions"),
        (json!({"type": "", "status": "True"}), "type must be set for all conditions"),
        (json!({"type": "Ready"}), "status must be set for the Ready condition"),
        (json!({"type": "Ready", "status": ""}), "status must be set for the Ready condition"),
        (
            json!({"type": "Ready", "status": "true"}),
            "status for the Ready condition must be one of True, False, Unknown",
        ),
        (json!({"type": 7, "status": "True"}), "type must be a string"),
        (json!({"type": "Ready", "status": true}), "status must be a string"),
        (
            json!({"type": "Ready", "status": "True", "observedGeneration": "3"}),
            "observedGeneration must be an integer",
        ),
    ];
    for (condition, problem) in cases {
        let expected = format!(
            "failed to convert status.conditions from DockerCluster to []metav1.Condition: {problem}"
        );
        assert_eq!(read_one(&condition).unwrap_err(), expected);
    }
    let newer = read(&json!({"v1beta2": {"conditions": [{}]}, "conditions": []})).unwrap_err();
    assert_eq!(
        newer,
        "failed to convert status.v1beta2.conditions from DockerCluster to []metav1.Condition: \
         type must be set for all conditions"
    );
}

#[test]
fn a_bad_time_is_an_error_even_before_a_missing_type() {
    let error = read_one(&json!({"lastTransitionTime": "yesterday"})).unwrap_err();
    let expected = "failed to convert status.conditions from DockerCluster to []metav1.Condition: \
                    failed to unmarshal lastTransitionTime value: yesterday: ";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn the_object_is_called_by_its_kind_and_name() {
    let machine = json!({
        "kind": "Machine",
        "metadata": {"name": "m", "generation": 4, "labels": {"cluster.x-k8s.io/control-plane": ""}},
    });
    let object = External::read(&machine, at(0)).unwrap();
    assert_eq!(object.owner(), Owner { kind: "Machine".into(), name: "m", is_control_plane_machine: true });
    assert_eq!(object.generation(), Some(4));

    let mut set = machine;
    set["kind"] = json!("MachineSet");
    assert!(!External::read(&set, at(0)).unwrap().owner().is_control_plane_machine);
}
