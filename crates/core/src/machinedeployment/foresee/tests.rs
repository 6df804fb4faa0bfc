//! Rollouts, thought through.

use super::*;
use crate::machinedeployment::fixtures::deployment;
use crate::machineset::desired::controller;
use crate::machineset::fixtures::{machine, machine_set};
use capstan_api::runtime::hooks::{CommonResponse, Patch, PatchType};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

const CALM: &str = r#"{"rollout": {"strategy": {"type": "RollingUpdate",
    "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}}"#;

fn template(kind: &str, group: &str, name: &str) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": name, "namespace": "ns"},
        "spec": {"template": {"spec": {}}},
    }))
    .expect("a test value")
}

/// Three machines that are well, under a MachineDeployment that is changed by `spec`.
fn world(spec: &Value) -> World {
    let labels = json!({"a": "b", "machine-template-hash": "1-abcde"});
    let set = machine_set(
        "old",
        3,
        &json!({"metadata": {"labels": labels, "ownerReferences": [
        {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "name": "md", "uid": "uid-md",
         "controller": true}]}}),
    );
    let well = |name: &str| {
        let machine = machine(name).with_node().condition("Available", true);
        let machine = machine.change(|machine| {
            machine.metadata.owner_references = controller(&set).map(|owner| vec![owner]);
            machine.metadata.labels = Some(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
        });
        machine.done()
    };
    let mut deployment = deployment(&json!({ "spec": spec }));
    defaults::fill(&mut deployment);
    defaults::fill_replicas(&mut deployment, &[]).expect("a number");
    World {
        deployment,
        machines: ["a", "b", "c"].map(well).to_vec(),
        sets: vec![set],
        templates: vec![
            template("ConfigTemplate", "bootstrap.cluster.x-k8s.io", "t"),
            template("InfraTemplate", "infrastructure.cluster.x-k8s.io", "t"),
        ],
        now: Timestamp::from_second(1000).expect("a time"),
    }
}

fn with(spec: &Value) -> World {
    let mut all: Value = serde_json::from_str(CALM).expect("a test value");
    crate::machineset::fixtures::merge(&mut all, spec);
    world(&all)
}

fn in_place(question: Question) -> (Question, Answer) {
    let version = question.request.desired.machine_set.spec.template.spec.version.clone();
    let patch = json!({"spec": {"template": {"spec": {"version": version}}}});
    let patch = Patch { patch_type: PatchType::JSONMergePatch, patch: ByteString(patch.to_string().into()) };
    let answer = CanUpdateMachineSetResponse {
        common: CommonResponse::success(),
        machine_set_patch: Some(patch),
        infrastructure_machine_template_patch: None,
        bootstrap_config_template_patch: None,
    };
    (question, Answer::Possible(Box::new(answer)))
}

fn nobody(question: Question) -> (Question, Answer) {
    (question, Answer::Nobody)
}

fn refused(question: Question) -> (Question, Answer) {
    (question, Answer::Refused("no".to_owned()))
}

fn foreseen(world: &World, answer: fn(Question) -> (Question, Answer)) -> Foresight {
    let questions = world.questions().expect("questions");
    world.foresee(&questions.into_iter().map(answer).collect::<Vec<_>>())
}

fn update(name: &str) -> RolloutStep {
    RolloutStep::Update(vec![name.to_owned()])
}

fn delete(name: &str) -> RolloutStep {
    RolloutStep::Delete(vec![name.to_owned()])
}

#[test]
fn what_can_be_changed_in_place_is_changed_one_by_one() {
    let world = with(&json!({"template": {"spec": {"version": "v1.35.0"}}}));
    let foresight = foreseen(&world, in_place);
    assert_eq!(foresight.steps, ["a", "b", "c"].map(update));
    assert_eq!((foresight.held, foresight.stops), (None, None));
    let wide = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 2}});
    let world = with(&json!({"rollout": {"strategy": wide}, "template": {"spec": {"version": "v1.35.0"}}}));
    let two = RolloutStep::Update(vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(foreseen(&world, in_place).steps, [two, update("c")]);
}

#[test]
fn what_nobody_can_change_is_replaced_and_what_is_refused_is_left_alone() {
    let world = with(&json!({"template": {"spec": {"version": "v1.35.0"}}}));
    let one = RolloutStep::Create(1);
    let expected = [delete("a"), one.clone(), delete("b"), one.clone(), delete("c"), one.clone()];
    assert_eq!(foreseen(&world, nobody).steps, expected);
    let foresight = foreseen(&world, refused);
    assert!(foresight.steps.is_empty());
    assert_eq!(foresight.held.as_deref(), Some("no"));
}

#[test]
fn numbers_and_what_is_handed_down_need_no_rollout() {
    assert_eq!(foreseen(&with(&json!({})), nobody).steps, []);
    assert_eq!(foreseen(&with(&json!({"replicas": 5})), nobody).steps, [RolloutStep::Create(2)]);
    let foresight = foreseen(&with(&json!({"replicas": 1})), nobody);
    assert_eq!(foresight.steps, [RolloutStep::Delete(vec!["a".to_owned(), "b".to_owned()])]);
    assert_eq!(foresight.stops, None);

    let world = with(&json!({"template": {"spec": {"minReadySeconds": 7}}}));
    let foresight = foreseen(&world, nobody);
    assert_eq!(foresight.steps, []);
    let (before, after) = &foresight.handed_down["a"];
    assert_eq!((before.spec.min_ready_seconds, after.spec.min_ready_seconds), (None, Some(7)));
}

#[test]
fn a_rollout_that_cannot_go_on_says_why() {
    let change = json!({"template": {"spec": {"version": "v1.35.0"}}});
    let mut world = with(&change);
    // Machines without Nodes are not given away.
    world.machines.iter_mut().for_each(|machine| machine.status = None);
    let foresight = foreseen(&world, in_place);
    assert_eq!(foresight.steps, []);
    assert_eq!(foresight.stops.as_deref(), Some("it waits for these to be available: a, b, c"));
    for (fields, expected) in [
        (json!({"paused": true}), "spec.paused"),
        (json!({"rollout": {"strategy": {"type": "OnDelete", "rollingUpdate": null}}}), "OnDelete"),
    ] {
        let mut all = change.clone();
        crate::machineset::fixtures::merge(&mut all, &fields);
        let foresight = foreseen(&with(&all), in_place);
        assert_eq!(foresight.steps, []);
        assert!(foresight.stops.is_some_and(|why| why.contains(expected)), "{fields}");
    }
    let world = with(&json!({"template": {"spec": {"infrastructureRef": {"name": "other"}}}}));
    assert!(world.questions().is_err_and(|why| why.contains("templates do not exist")));
}
