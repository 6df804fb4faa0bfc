//! What a Machine says of its Node.

use capstan_api::conditions::get;
use capstan_api::core::Machine;
use capstan_controller::remote::Health;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use std::sync::Arc;

use super::{NOW, cluster, healthy_node, machine, observed, plain, read, says};
use crate::machine::observe::{NodeReading, Observed};
use crate::machine::status;

#[test]
fn every_wait_for_a_node_is_reported() {
    let id = |mut machine: Machine| {
        machine.spec.provider_id = Some("x://1".to_owned());
        machine
    };
    let with_node = || machine(&json!({}), &json!({"nodeRef": {"name": "node"}}));
    let deleting = |status: &Value| machine(&json!({"deletionTimestamp": "2025-01-01T00:00:00Z"}), status);
    let never_reached = Health::default();
    let fine = Health { last_success: Some(NOW), failures: 0, failing: None };
    let mut unprovisioned = cluster(false);
    unprovisioned.status = None;
    for (machine, cluster, reading, health, status, reason, message) in [
        (
            plain(),
            unprovisioned,
            NodeReading::NotLooked,
            fine,
            "Unknown",
            "InspectionFailed",
            "Waiting for Cluster status.initialization.infrastructureProvisioned to be true",
        ),
        (
            plain(),
            cluster(false),
            NodeReading::NotLooked,
            fine,
            "Unknown",
            "InspectionFailed",
            "Waiting for Cluster control plane to be initialized",
        ),
        (
            plain(),
            cluster(true),
            NodeReading::NotLooked,
            never_reached,
            "Unknown",
            "ConnectionDown",
            "Remote connection not established yet",
        ),
        (
            plain(),
            cluster(true),
            NodeReading::NotLooked,
            fine,
            "Unknown",
            "InspectionFailed",
            "Waiting for Host to report spec.providerID",
        ),
        (
            id(plain()),
            cluster(true),
            NodeReading::Missing,
            fine,
            "Unknown",
            "InspectionFailed",
            "Waiting for a Node with spec.providerID x://1 to exist",
        ),
        (
            with_node(),
            cluster(true),
            NodeReading::Missing,
            fine,
            "False",
            "NodeDeleted",
            "Node node has been deleted while the Machine still exists",
        ),
        (
            deleting(&json!({"nodeRef": {"name": "node"}})),
            cluster(true),
            NodeReading::Missing,
            fine,
            "False",
            "NodeDeleted",
            "Node node has been deleted",
        ),
        (
            deleting(&json!({})),
            cluster(true),
            NodeReading::Missing,
            fine,
            "Unknown",
            "NodeDoesNotExist",
            "Node does not exist",
        ),
        (
            id(plain()),
            cluster(true),
            NodeReading::Failed,
            fine,
            "Unknown",
            "InternalError",
            "Please check controller logs for errors",
        ),
        (
            id(plain()),
            cluster(true),
            NodeReading::Disconnected,
            fine,
            "Unknown",
            "ConnectionDown",
            "Last successful probe at 2027-01-15T08:00:00Z",
        ),
    ] {
        let mut machine = machine;
        let seen = Observed { cluster, health, ..observed() };
        status::update(&mut machine, &seen, &reading, None, NOW);
        says(&machine, "NodeHealthy", status, reason, message);
        says(&machine, "NodeReady", status, reason, message);
    }
}

#[test]
fn what_was_known_stays_while_the_connection_is_down_for_a_moment() {
    let mut machine = plain();
    status::update(&mut machine, &observed(), &healthy_node(), None, NOW);
    says(&machine, "NodeHealthy", "True", "NodeHealthy", "");
    let down =
        Observed { health: Health { last_success: Some(NOW), failures: 9, failing: None }, ..observed() };
    let later = |minutes| NOW + SignedDuration::from_mins(minutes);
    status::update(&mut machine, &down, &NodeReading::Disconnected, None, later(5));
    says(&machine, "NodeHealthy", "True", "NodeHealthy", "");
    status::update(&mut machine, &down, &NodeReading::Disconnected, None, later(6));
    says(
        &machine,
        "NodeHealthy",
        "Unknown",
        "ConnectionDown",
        "Last successful probe at 2027-01-15T08:00:00Z",
    );
}

#[test]
fn the_health_of_a_node_is_summed_up() {
    let condition = |type_: &str, status: &str, message: &str| json!({"type": type_, "status": status, "message": message, "lastTransitionTime": "2025-01-01T00:00:00Z"});
    let silent = |type_: &str| condition(type_, "Unknown", "Kubelet stopped posting node status.");
    let good = [
        condition("MemoryPressure", "False", ""),
        condition("DiskPressure", "False", ""),
        condition("PIDPressure", "False", ""),
    ];
    let with = |first: Value| [&[first], good.as_slice()].concat();
    for (conditions, status, reason, message) in [
        (with(condition("Ready", "True", "fine")), "True", "NodeHealthy", ""),
        (with(condition("Ready", "False", "no CNI")), "False", "NodeNotHealthy", "* Node.Ready: no CNI"),
        (
            with(condition("Ready", "False", "")),
            "False",
            "NodeNotHealthy",
            "* Node.Ready: Condition is False",
        ),
        (
            ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"].map(silent).to_vec(),
            "Unknown",
            "NodeHealthyUnknown",
            "* Node.AllConditions: Kubelet stopped posting node status.",
        ),
        (
            vec![condition("Ready", "True", ""), condition("MemoryPressure", "True", "full")],
            "False",
            "NodeNotHealthy",
            "* Node.MemoryPressure: full\n* Node.DiskPressure: Condition not yet reported\n\
             * Node.PIDPressure: Condition not yet reported",
        ),
    ] {
        let node: Node = read(json!({"metadata": {"name": "node"}, "status": {"conditions": conditions}}));
        let mut machine = plain();
        status::update(&mut machine, &observed(), &NodeReading::Found(Arc::new(node)), None, NOW);
        says(&machine, "NodeHealthy", status, reason, message);
    }
    let mut machine = plain();
    let node: Node =
        read(json!({"metadata": {"name": "node"}, "status": {"conditions": with(silent("Ready"))}}));
    status::update(&mut machine, &observed(), &NodeReading::Found(Arc::new(node)), None, NOW);
    says(
        &machine,
        "NodeReady",
        "Unknown",
        "NodeReadyUnknown",
        "* Node.Ready: Kubelet stopped posting node status.",
    );
    let since = get(&machine, "NodeReady").map(|condition| condition.last_transition_time.0.to_string());
    assert_eq!(since.as_deref(), Some("2025-01-01T00:00:00Z"), "as long as the Node has said so");
}
