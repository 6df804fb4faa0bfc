//! How far an update is, told by the objects of a machine.

use super::*;
use capstan_api::runtime::hooks::ResponseStatus;
use capstan_plan::{Action, Argv, Command, Epoch, MachineIdentity, MachinePlan, Revision, SigningKey, Step};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::core::ObjectMeta;
use serde_json::json;
use std::collections::BTreeMap;

const NEW: &str = "v1.36.1+k3s1";
const ID: &str = "0123";

fn desired(version: &str, config: &Value) -> MachineObjects {
    serde_json::from_value(json!({
        "machine": {
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "m", "namespace": "n"},
            "spec": {"clusterName": "c", "version": version,
                "bootstrap": {"configRef":
                    {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "CapstanConfig", "name": "m"}},
                "infrastructureRef": {"apiGroup": "i", "kind": "HostMachine", "name": "m"}},
        },
        "bootstrapConfig": {
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha1", "kind": "CapstanConfig",
            "metadata": {"name": "m"}, "spec": config,
        },
        "infrastructureMachine": {},
    }))
    .expect("objects")
}

fn signed(revision: u64) -> SignedPlan {
    let machine =
        MachineIdentity { name: "m".parse().expect("a name"), machine_id: ID.parse().expect("an ID") };
    let revision = Revision::new(revision).expect("a revision");
    let mut plan = MachinePlan::new(machine, revision, Epoch(1), Timestamp::UNIX_EPOCH);
    let action = Action::Command(Command::new(Argv::new(["true"]).expect("words")));
    plan.steps = vec![Step::new("install".parse().expect("a name"), action)];
    plan.seal().expect("a plan").sign(&SigningKey::generate().expect("a key"))
}

fn secret(plan: &SignedPlan, setup: &str, id: &str) -> Secret {
    let data = plan.to_secret_data().into_iter().map(|(key, value)| (key, ByteString(value))).collect();
    let annotations = [(plans::PLAN_SETUP, setup), (identity::MACHINE_ID, id)];
    Secret {
        metadata: ObjectMeta {
            name: Some("m-plan".to_owned()),
            annotations: Some(annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..Secret::default()
    }
}

fn report(status: &Value) -> MachineReport {
    serde_json::from_value(json!({
        "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "MachineReport", "metadata": {"name": "m"},
        "spec": {"machineName": "m", "machineID": ID}, "status": status,
    }))
    .expect("a report")
}

fn named(plan: &SignedPlan) -> Value {
    json!({"digest": plan.id().digest().to_string(), "revision": plan.id().revision().get()})
}

fn seen(objects: &MachineObjects) -> Seen {
    let mut config: CapstanConfig =
        serde_json::from_value(objects.bootstrap_config.clone().expect("a config")).expect("a config");
    config.metadata.annotations = Some(BTreeMap::from([(identity::MACHINE_ID.to_owned(), ID.to_owned())]));
    Seen { machine: Some(objects.machine.clone()), config: Some(config), ..Seen::default() }
}

fn setup(version: &str) -> String {
    plans::setup(version, &CapstanConfigSpec::default())
}

/// Status, seconds to wait, and what is said.
fn said(objects: &MachineObjects, seen: &Seen) -> (bool, i32, String) {
    let answer = answer(objects, seen);
    let succeeds = answer.common.status == ResponseStatus::Success;
    (succeeds, answer.retry_after_seconds, answer.common.message.unwrap_or_default())
}

#[test]
fn an_update_is_done_when_the_machine_says_so_of_this_very_plan() {
    let objects = desired(NEW, &json!({"distro": "k3s"}));
    let (plan, other) = (signed(2), signed(1));
    let done = json!({"plan": named(&plan), "phase": "Applied", "applied": named(&plan)});
    let with = |secret: Secret, status: &Value| Seen {
        plan: Some(secret),
        report: Some(report(status)),
        ..seen(&objects)
    };
    let good = || secret(&plan, &setup(NEW), ID);
    assert_eq!(said(&objects, &with(good(), &done)), (true, 0, String::new()));
    for (case, looked, expected) in [
        ("no plan", Seen { plan: None, ..with(good(), &done) }, "waits for its plan"),
        ("a plan for another setup", with(secret(&plan, &setup("v1.36.0"), ID), &done), "waits for its plan"),
        ("a plan of a former life", with(secret(&plan, &setup(NEW), "4567"), &done), "waits for its plan"),
        ("no report", Seen { report: None, ..with(good(), &done) }, "waits for the machine to begin plan 2"),
        (
            "a report about another plan",
            with(good(), &json!({"plan": named(&other), "phase": "Applied", "applied": named(&other)})),
            "waits for the machine to begin plan 2",
        ),
        (
            "under way",
            with(
                good(),
                &json!({"plan": named(&plan), "phase": "Applying",
                "step": {"name": "install", "index": 1, "total": 3}}),
            ),
            "plan 2 at step 1 of 3, install",
        ),
        (
            "waiting",
            with(good(), &json!({"plan": named(&plan), "phase": "Waiting", "message": "for a drain"})),
            "plan 2 waits: for a drain",
        ),
    ] {
        assert_eq!(said(&objects, &looked), (true, SOON, expected.to_owned()), "{case}");
    }
}

#[test]
fn a_failure_tells_the_last_lines() {
    let objects = desired(NEW, &json!({}));
    let plan = signed(3);
    let lines: Vec<String> = (0..20).map(|number| format!("line {number}")).collect();
    let status = json!({
        "plan": named(&plan), "phase": "Failed", "message": "gave up after 3 attempts",
        "step": {"name": "install", "index": 2, "total": 4, "exitCode": 7},
        "output": {"stdout": {"head": "begin", "tail": lines.join("\n")}, "stderr": {"head": "no space left"}},
    });
    let looked =
        Seen { plan: Some(secret(&plan, &setup(NEW), ID)), report: Some(report(&status)), ..seen(&objects) };
    let (succeeds, wait, message) = said(&objects, &looked);
    assert!(!succeeds && wait == 0);
    let start = "plan 3 failed at step 2 of 4, install (exit code 7): gave up after 3 attempts\nline 11\n";
    assert!(message.starts_with(start), "{message}");
    assert!(message.ends_with("\nline 19\nno space left"), "{message}");
}

#[test]
fn the_planner_says_why_there_is_no_plan() {
    let objects = desired(NEW, &json!({}));
    let with = |reason: &str| {
        let mut looked = seen(&objects);
        let conditions = json!([{"type": "Planned", "status": "False", "reason": reason,
            "message": "because", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let config = looked.config.as_mut().expect("a config");
        config.status = serde_json::from_value(json!({"conditions": conditions})).expect("a status");
        looked
    };
    assert_eq!(said(&objects, &with("Waiting")), (true, SOON, "because".to_owned()));
    assert_eq!(said(&objects, &with("Refused")), (false, 0, "because".to_owned()));
}

#[test]
fn core_may_ask_from_what_it_read_a_while_ago() {
    let (old, new) = (desired("v1.36.0+k3s1", &json!({})), desired(NEW, &json!({})));
    let (succeeds, wait, _) = said(&old, &seen(&new));
    assert!(succeeds && wait > 0);
    let other = desired(NEW, &json!({"settings": {"debug": true}}));
    let (succeeds, wait, _) = said(&new, &seen(&other));
    assert!(succeeds && wait > 0);
}

#[test]
fn what_cannot_be_told_is_a_failure() {
    let mut foreign = desired(NEW, &json!({}));
    foreign.bootstrap_config.as_mut().expect("a config")["kind"] = json!("KubeadmConfig");
    let objects = desired(NEW, &json!({}));
    let unknown = desired(NEW, &json!({"distro": "unheard of"}));
    let gone = Seen { machine: None, ..seen(&objects) };
    for (case, objects, looked) in [
        ("foreign", &foreign, seen(&objects)),
        ("unknown", &unknown, seen(&objects)),
        ("gone", &objects, gone),
    ] {
        assert!(!said(objects, &looked).0, "{case}");
    }
}

#[test]
fn what_cannot_succeed_is_given_up_for_what_comes_next() {
    let objects = desired(NEW, &json!({}));
    let plan = signed(3);
    let set = |to: &str| -> MachineSet {
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
            "metadata": {"name": "ms", "annotations": {MOVE_MACHINES_TO: to}},
            "spec": {"clusterName": "c", "selector": {}, "template": {"spec": {"clusterName": "c", "bootstrap": {},
                "infrastructureRef": {"apiGroup": "i", "kind": "T", "name": "t"}}}},
        }))
        .expect("a MachineSet")
    };
    let with = |phase: &str, to: &str| Seen {
        set: Some(set(to)),
        plan: Some(secret(&plan, &setup(NEW), ID)),
        report: Some(report(&json!({"plan": named(&plan), "phase": phase}))),
        ..seen(&objects)
    };
    let unplanned = |to: &str| Seen { plan: None, ..with("Applying", to) };
    for (case, looked, is_over, succeeds) in [
        ("failed, and it should become what it failed at", with("Failed", ""), true, false),
        ("failed, and it should become something else", with("Failed", "next"), true, true),
        ("under way", with("Applying", "next"), false, true),
        ("not begun", unplanned(""), false, true),
        ("not begun, and it should become something else", unplanned("next"), true, true),
    ] {
        let (success, wait, _) = said(&objects, &looked);
        assert_eq!((wait == 0, success), (is_over, succeeds), "{case}");
    }
}
