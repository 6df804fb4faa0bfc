//! How far an update is, told by the objects of a machine.

use super::*;
use capstan_api::runtime::hooks::ResponseStatus;
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

fn plan(revision: u64) -> PlanId {
    let digest = format!("{revision:064x}");
    serde_json::from_value(json!({"digest": digest, "revision": revision})).expect("an ID")
}

fn report(status: &Value) -> MachineReport {
    serde_json::from_value(json!({
        "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "MachineReport", "metadata": {"name": "m"},
        "spec": {"machineName": "m", "machineID": ID}, "status": status,
    }))
    .expect("a report")
}

fn named(plan: PlanId) -> Value {
    json!({"digest": plan.digest().to_string(), "revision": plan.revision().get()})
}

fn seen(objects: &MachineObjects) -> Seen {
    let mut config: CapstanConfig =
        serde_json::from_value(objects.bootstrap_config.clone().expect("a config")).expect("a config");
    config.metadata.annotations = Some(BTreeMap::from([(identity::MACHINE_ID.to_owned(), ID.to_owned())]));
    Seen { machine: Some(objects.machine.clone()), config: Some(config), ..Seen::default() }
}

impl Seen {
    /// The planner has said that the machine has a plan for this setup and the machine with this ID.
    fn planned(mut self, plan: PlanId, setup: &str, id: &str) -> Self {
        let config = self.config.as_mut().expect("a config");
        config.status.get_or_insert_default().plan = plans::status(plan, setup, id);
        self
    }

    /// The planner has set its condition.
    fn with_condition(mut self, status: &str, reason: &str) -> Self {
        let condition = json!({"type": "Planned", "status": status, "reason": reason, "message": "because",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let config = self.config.as_mut().expect("a config");
        config.status.get_or_insert_default().conditions =
            vec![serde_json::from_value(condition).expect("a condition")];
        self
    }

    fn reported(self, status: &Value) -> Self {
        Self { report: Some(report(status)), ..self }
    }
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
    let (plan, other, newer) = (plan(2), plan(1), plan(3));
    let done = json!({"plan": named(plan), "phase": "Applied", "applied": named(plan)});
    let good = || seen(&objects).planned(plan, &setup(NEW), ID);
    let waits_for_plan = "waits for its plan";
    assert_eq!(said(&objects, &good().reported(&done)), (true, 0, String::new()));
    for (case, looked, expected) in [
        ("no plan", seen(&objects).with_condition("False", "Waiting"), "because"),
        (
            "a plan for another setup",
            seen(&objects).planned(plan, &setup("v1.36.0"), ID).reported(&done),
            waits_for_plan,
        ),
        (
            "a plan of a former life",
            seen(&objects).planned(plan, &setup(NEW), "4567").reported(&done),
            waits_for_plan,
        ),
        ("no report", good(), "waits for the machine to begin plan 2"),
        (
            "a report about another plan",
            good().reported(&json!({"plan": named(other), "phase": "Applied", "applied": named(other)})),
            "waits for the machine to begin plan 2",
        ),
        (
            "the status is behind, and the machine has begun a newer plan",
            good().reported(&json!({"plan": named(newer), "phase": "Applying", "applied": named(plan)})),
            "waits for the control plane provider: the machine has a newer plan than 2",
        ),
        (
            "the status is behind, and the newer plan has failed",
            good().reported(&json!({"plan": named(newer), "phase": "Failed", "applied": named(plan)})),
            "waits for the control plane provider: the machine has a newer plan than 2",
        ),
        (
            "under way",
            good().reported(&json!({"plan": named(plan), "phase": "Applying",
                "step": {"name": "install", "index": 1, "total": 3}})),
            "plan 2 at step 1 of 3, install",
        ),
        (
            "waiting",
            good().reported(&json!({"plan": named(plan), "phase": "Waiting", "message": "for a drain"})),
            "plan 2 waits: for a drain",
        ),
    ] {
        assert_eq!(said(&objects, &looked), (true, SOON, expected.to_owned()), "{case}");
    }
}

/// Objects of an earlier version, and of a cluster that was moved, have no plan in their status until the planner has
/// reconciled them.
#[test]
fn an_update_without_a_plan_in_the_status_is_in_progress() {
    let objects = desired(NEW, &json!({}));
    let (plan, waits) = (plan(2), "waits for the control plane provider to say which plan the machine has");
    let applied = json!({"plan": named(plan), "phase": "Applied", "applied": named(plan)});
    let failed = json!({"plan": named(plan), "phase": "Failed"});
    let idle = json!({"applied": named(plan)});
    for (case, looked) in [
        ("moved", seen(&objects)),
        ("moved, and the agent has followed", seen(&objects).reported(&applied)),
        (
            "planned by an earlier version",
            seen(&objects).with_condition("True", "Planned").reported(&applied),
        ),
        (
            "drained for the plan of an earlier version",
            seen(&objects).with_condition("False", "Waiting").reported(&applied),
        ),
        ("the plan has failed", seen(&objects).with_condition("True", "Planned").reported(&failed)),
        ("the machine was started again", seen(&objects).reported(&idle)),
    ] {
        assert_eq!(said(&objects, &looked), (true, SOON, waits.to_owned()), "{case}");
        let handed_on = Seen { set: Some(set("next")), ..looked };
        assert_eq!(said(&objects, &handed_on), (true, SOON, waits.to_owned()), "{case}, and is handed on");
    }
}

#[test]
fn a_failure_has_the_last_lines() {
    let objects = desired(NEW, &json!({}));
    let plan = plan(3);
    let lines: Vec<String> = (0..20).map(|number| format!("line {number}")).collect();
    let status = json!({
        "plan": named(plan), "phase": "Failed", "message": "gave up after 3 attempts",
        "step": {"name": "install", "index": 2, "total": 4, "exitCode": 7},
        "output": {"stdout": {"head": "begin", "tail": lines.join("\n")}, "stderr": {"head": "no space left"}},
    });
    let looked = seen(&objects).planned(plan, &setup(NEW), ID).reported(&status);
    let (succeeds, wait, message) = said(&objects, &looked);
    assert!(!succeeds && wait == 0);
    let start = "plan 3 failed at step 2 of 4, install (exit code 7): gave up after 3 attempts\nline 11\n";
    assert!(message.starts_with(start), "{message}");
    assert!(message.ends_with("\nline 19\nno space left"), "{message}");
}

#[test]
fn the_planner_says_why_there_is_no_plan() {
    let objects = desired(NEW, &json!({}));
    let with = |reason: &str| seen(&objects).with_condition("False", reason);
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
fn an_unreadable_state_is_a_failure() {
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

fn set(to: &str) -> MachineSet {
    serde_json::from_value(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
        "metadata": {"name": "ms", "annotations": {MOVE_MACHINES_TO: to}},
        "spec": {"clusterName": "c", "selector": {}, "template": {"spec": {"clusterName": "c", "bootstrap": {},
            "infrastructureRef": {"apiGroup": "i", "kind": "T", "name": "t"}}}},
    }))
    .expect("a MachineSet")
}

#[test]
fn what_cannot_succeed_is_given_up_for_what_comes_next() {
    let objects = desired(NEW, &json!({}));
    let plan = plan(3);
    let with = |phase: &str, to: &str| Seen {
        set: Some(set(to)),
        ..seen(&objects)
            .planned(plan, &setup(NEW), ID)
            .reported(&json!({"plan": named(plan), "phase": phase}))
    };
    let unplanned =
        |to: &str| Seen { set: Some(set(to)), ..seen(&objects).with_condition("False", "Waiting") };
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
