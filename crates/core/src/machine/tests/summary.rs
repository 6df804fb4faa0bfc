//! Ready, Available and UpToDate.

use capstan_api::conditions::{NewCondition, get, set};
use capstan_api::core::{Machine, MachineDeployment, MachineSet};
use capstan_controller::Next;
use jiff::SignedDuration;
use serde_json::json;
use std::time::Duration;

use super::{NOW, condition_of, healthy_node, machine, observed, plain, read, says};
use crate::machine::decide::delete;
use crate::machine::observe::Observed;
use crate::machine::status;

fn ready_machine() -> (Machine, Observed) {
    let flags =
        json!({"initialization": {"bootstrapDataSecretCreated": true, "infrastructureProvisioned": true}});
    (machine(&json!({}), &flags), observed())
}

#[test]
fn ready_needs_its_gates_and_available_its_time() {
    let (mut machine, seen) = ready_machine();
    machine.spec.readiness_gates =
        read(json!([{"conditionType": "APIServerPodHealthy"}, {"conditionType": "SchedulerPodHealthy"}]));
    let unknown =
        |type_: &str| NewCondition::new(type_, capstan_api::conditions::ConditionStatus::Unknown, "X");
    for type_ in ["APIServerPodHealthy", "SchedulerPodHealthy"] {
        set(&mut machine, unknown(type_).message("Waiting"), NOW);
    }
    status::update(&mut machine, &seen, &healthy_node(), None, NOW);
    says(&machine, "Ready", "Unknown", "ReadyUnknown", "* Control plane components: Waiting");
    says(&machine, "Available", "False", "NotReady", "");

    for type_ in ["APIServerPodHealthy", "SchedulerPodHealthy"] {
        set(&mut machine, NewCondition::new(type_, true, "Good"), NOW);
    }
    machine.spec.min_ready_seconds = Some(30);
    let at = |seconds| NOW + SignedDuration::from_secs(seconds);
    let next = status::update(&mut machine, &seen, &healthy_node(), None, at(1));
    says(&machine, "Ready", "True", "Ready", "");
    says(&machine, "Available", "False", "WaitingForMinReadySeconds", "");
    assert_eq!(next, Next::After(Duration::from_secs(30)));
    let next = status::update(&mut machine, &seen, &healthy_node(), None, at(31));
    says(&machine, "Available", "True", "Available", "");
    assert_eq!(next, Next::Changed);
}

#[test]
fn machines_of_a_deployment_say_whether_they_are_up_to_date() {
    let template = |version: &str, host: &str, domain: Option<&str>| {
        let mut spec = json!({"clusterName": "c", "version": version,
            "bootstrap": {"configRef": {"apiGroup": "b", "kind": "ConfigTemplate", "name": "t"}},
            "infrastructureRef": {"apiGroup": "i", "kind": "HostTemplate", "name": host}});
        if let Some(domain) = domain {
            spec["failureDomain"] = json!(domain);
        }
        json!({"spec": spec})
    };
    let old = template("v1.36.1", "t", None);
    let kubelet = |version: &str| {
        json!({"nodeInfo": {"kubeletVersion": version, "machineID": "", "systemUUID": "",
        "bootID": "", "kernelVersion": "", "osImage": "", "architecture": "", "containerRuntimeVersion": "",
        "kubeProxyVersion": "", "operatingSystem": ""}})
    };
    for (new, after, status, expected) in [
        (old.clone(), None, kubelet("v1.36.1"), ("True", "UpToDate", "")),
        (old.clone(), None, json!({}), ("True", "UpToDate", "")),
        (
            old.clone(),
            None,
            kubelet("v1.35.0"),
            ("False", "Updating", "* Node.status.nodeInfo.kubeletVersion v1.35.0, v1.36.1 required"),
        ),
        (
            template("v1.37.0", "t2", Some("z")),
            None,
            json!({}),
            (
                "False",
                "NotUpToDate",
                "* Version v1.36.1, v1.37.0 required\n* Host is not up-to-date\n* Failure domain , z required",
            ),
        ),
        (
            old.clone(),
            Some("2026-06-01T00:00:00Z"),
            json!({}),
            ("False", "NotUpToDate", "* MachineDeployment spec.rolloutAfter expired"),
        ),
        (old.clone(), Some("2024-06-01T00:00:00Z"), json!({}), ("True", "UpToDate", "")),
        (old.clone(), Some("2030-06-01T00:00:00Z"), json!({}), ("True", "UpToDate", "")),
    ] {
        let mut spec = json!({"clusterName": "c", "selector": {}, "template": new});
        if let Some(after) = after {
            spec["rollout"] = json!({"after": after});
        }
        let deployment: MachineDeployment = read(json!({"apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "MachineDeployment", "metadata": {"name": "md"}, "spec": spec}));
        let set: MachineSet = read(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
            "metadata": {"name": "ms", "creationTimestamp": "2025-01-01T00:00:00Z"},
            "spec": {"clusterName": "c", "selector": {}, "template": old}}));
        let mut machine = machine(&json!({}), &status);
        let seen = Observed { set: Some(set), deployment: Some(deployment), ..observed() };
        status::update(&mut machine, &seen, &healthy_node(), None, NOW);
        says(&machine, "UpToDate", expected.0, expected.1, expected.2);
    }
    let mut alone = plain();
    status::update(&mut alone, &observed(), &healthy_node(), None, NOW);
    assert!(get(&alone, "UpToDate").is_none(), "others may say it");
}

#[test]
fn a_long_drain_is_explained_in_short() {
    let status =
        json!({"deletion": {"nodeDrainStartTime": "2026-01-01T00:00:00Z"}, "nodeRef": {"name": "node"}});
    let mut machine = machine(&json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), &status);
    let deletion = delete::Deletion {
        reason: "DrainingNode",
        message: "* Pod a/b: deletionTimestamp set, but still not removed from the Node".to_owned(),
        is_done: false,
        result: Ok(Next::Changed),
    };
    let (_, seen) = ready_machine();
    status::update(&mut machine, &seen, &healthy_node(), Some(&deletion), NOW);
    let (_, _, message) = condition_of(&machine, "Ready");
    let first = message.lines().next();
    assert_eq!(
        first,
        Some(
            "* Deleting: Machine deletion in progress since more than 15m, stage: DrainingNode, delay likely due to \
             Pods not terminating"
        )
    );
}
