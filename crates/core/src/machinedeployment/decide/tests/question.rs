//! What an extension is asked, and what its answers mean.

use super::*;
use crate::machineset::fixtures::{at, machine_set};
use capstan_api::runtime::hooks::{CommonResponse, Patch, PatchType};
use k8s_openapi::ByteString;

const LIMITS: Limits = Limits { desired: 3, max_surge: 1, max_unavailable: 0 };

fn template(kind: &str, name: &str, spec: &Value) -> DynamicObject {
    let value = json!({
        "apiVersion": "x/v1", "kind": kind,
        "metadata": {"name": name, "namespace": "ns", "uid": "u", "labels": {"a": "b"}},
        "spec": {"template": {"spec": spec}}, "status": {"capacity": {}},
    });
    serde_json::from_value(value).expect("a test value")
}

fn side(name: &str, version: &str, host: &Value, config: Option<&Value>) -> Side {
    let fields = json!({
        "metadata": {"annotations": {MAX_REPLICAS: "4"}},
        "spec": {"template": {"spec": {"version": version}}}, "status": {"replicas": 3},
    });
    let mut set = machine_set(name, 3, &fields);
    set.metadata.creation_timestamp = Some(at(7));
    Side {
        set,
        infrastructure: template("InfraTemplate", name, host),
        bootstrap: config.map(|config| template("ConfigTemplate", name, config)),
    }
}

fn asked(current: &Side, desired: &Side) -> CanUpdateMachineSetRequest {
    request(current, desired, LIMITS).expect("something to ask")
}

fn answer() -> CanUpdateMachineSetResponse {
    CanUpdateMachineSetResponse {
        common: CommonResponse::success(),
        machine_set_patch: None,
        infrastructure_machine_template_patch: None,
        bootstrap_config_template_patch: None,
    }
}

fn patch(spec: &Value) -> Option<Patch> {
    let patch = json!({"spec": {"template": {"spec": spec}}});
    Some(Patch { patch_type: PatchType::JSONMergePatch, patch: ByteString(patch.to_string().into_bytes()) })
}

#[test]
fn an_extension_sees_specs_and_nothing_more() {
    let current = side("old", "v1.35.0", &json!({"size": 1}), Some(&json!({"files": []})));
    let asked = serde_json::to_value(asked(&current, &current)).expect("JSON");
    let set = &asked["current"]["machineSet"];
    assert_eq!((&set["kind"], &set["metadata"]["name"]), (&json!("MachineSet"), &json!("old")));
    assert!(set.get("status").is_none() && set["metadata"].get("uid").is_none(), "{set}");
    assert_eq!(set["metadata"]["annotations"][MAX_REPLICAS], "3", "in place no machine is made");
    let template = &asked["desired"]["infrastructureMachineTemplate"];
    assert_eq!(template["spec"]["template"]["spec"]["size"], 1);
    assert_eq!(template["metadata"], json!({"name": "old", "namespace": "ns", "labels": {"a": "b"}}));
    assert!(template.get("status").is_none(), "{template}");
}

#[test]
fn with_a_bootstrap_template_on_one_side_there_is_nothing_to_ask() {
    let with = side("old", "v1.35.0", &json!({}), Some(&json!({})));
    let without = side("new", "v1.35.0", &json!({}), None);
    assert!(request(&with, &without, LIMITS).is_none());
    assert!(request(&without, &with, LIMITS).is_none());
    assert!(request(&without, &without, LIMITS).is_some());
}

#[test]
fn every_difference_must_be_covered() {
    let old = side("old", "v1.35.0", &json!({"size": 1}), Some(&json!({"a": 1})));
    let version = side("new", "v1.36.0", &json!({"size": 1}), Some(&json!({"a": 1})));
    let config = side("new", "v1.35.0", &json!({"size": 1}), Some(&json!({"a": 2, "b": 3})));
    let host = side("new", "v1.35.0", &json!({"size": 2}), Some(&json!({"a": 1})));
    let covers = |machine: Value, config: Value| CanUpdateMachineSetResponse {
        machine_set_patch: patch(&machine),
        bootstrap_config_template_patch: patch(&config),
        ..answer()
    };
    for (case, desired, answer, expected) in [
        ("nothing differs", &old, answer(), vec![]),
        ("nothing is covered", &version, answer(), vec!["MachineSet spec.template.spec.version"]),
        ("the version is covered", &version, covers(json!({"version": "v1.36.0"}), json!({})), vec![]),
        (
            "another version is covered",
            &version,
            covers(json!({"version": "v1.37.0"}), json!({})),
            vec!["MachineSet spec.template.spec.version"],
        ),
        ("the config is covered", &config, covers(json!({}), json!({"a": 2, "b": 3})), vec![]),
        (
            "half of the config is covered",
            &config,
            covers(json!({}), json!({"a": 2})),
            vec!["ConfigTemplate spec.template.spec"],
        ),
        ("the host is not covered", &host, answer(), vec!["InfraTemplate spec.template.spec"]),
    ] {
        let remains = remaining(&asked(&old, desired), &answer).expect("patches that fit");
        assert_eq!(remains, expected, "{case}");
    }
}

#[test]
fn only_an_answer_that_decides_is_worth_keeping() {
    let old = side("old", "v1.35.0", &json!({"size": 1}), None);
    let new = side("new", "v1.36.0", &json!({"size": 2}), None);
    let covers =
        |machine: Value| CanUpdateMachineSetResponse { machine_set_patch: patch(&machine), ..answer() };
    let malformed = Patch { patch_type: PatchType::JSONPatch, patch: ByteString(b"no list".to_vec()) };
    let empty = Patch { patch_type: PatchType::JSONPatch, patch: ByteString(vec![]) };
    let with = |patch: Patch| CanUpdateMachineSetResponse { machine_set_patch: Some(patch), ..answer() };
    let mut failed = covers(json!({"version": "v1.36.0"}));
    failed.common = CommonResponse::failure("no");
    for (case, answer, expected) in [
        ("some of it can be changed", covers(json!({"version": "v1.36.0"})), true),
        ("nothing is said", answer(), false),
        ("an empty patch", with(empty), false),
        ("a patch that is none", with(malformed), false),
        ("a failure", failed, false),
    ] {
        assert_eq!(is_decision(&asked(&old, &new), &answer), expected, "{case}");
    }
}
