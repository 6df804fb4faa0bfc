//! The conditions `NodeReady` and `NodeHealthy` of a Machine.
//!
//! While the workload cluster cannot be reached, the last known state is kept for a while, so that a short interruption
//! does not make all machines of a cluster unhealthy.

use capstan_api::conditions::{ConditionStatus, NewCondition, get, has, is_true, reasons};
use capstan_api::core::{Cluster, Machine};
use capstan_controller::remote::Health;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use std::collections::BTreeSet;

use super::super::decide::node;
use super::super::decide::provision::deleting;
use super::super::observe::NodeReading;
use crate::cluster::provisioned;
use crate::names::CHECK_LOGS;
use crate::names::cluster::types::CONTROL_PLANE_INITIALIZED;
use crate::names::machine::reasons as machine_reasons;
use crate::names::machine::types::{NODE_HEALTHY, NODE_READY};
use capstan_controller::text::rfc3339;

/// How long the last known state is kept for a cluster that does not respond.
const GRACE: SignedDuration = SignedDuration::from_mins(5);

/// Conditions of a Node that make up its health, and whether true is good.
const HEALTH: [(&str, bool); 4] =
    [("Ready", true), ("MemoryPressure", false), ("DiskPressure", false), ("PIDPressure", false)];

/// The new conditions; empty if the current ones are kept.
pub(super) fn conditions(
    machine: &Machine,
    cluster: &Cluster,
    reading: &NodeReading,
    health: Health,
    now: Timestamp,
) -> Vec<NewCondition> {
    let unknown = |reason: &str, message: &str| both(ConditionStatus::Unknown, reason, message);
    // Shown only as long as nothing better was ever known.
    let at_first = |message: &str| match has(machine, NODE_READY) && has(machine, NODE_HEALTHY) {
        true => Vec::new(),
        false => unknown(reasons::CONNECTION_DOWN, message),
    };
    if !provisioned(cluster) {
        let message = "Waiting for Cluster status.initialization.infrastructureProvisioned to be true";
        return unknown(reasons::INSPECTION_FAILED, message);
    }
    if !is_true(cluster, CONTROL_PLANE_INITIALIZED) {
        return unknown(reasons::INSPECTION_FAILED, "Waiting for Cluster control plane to be initialized");
    }
    if health.is_unknown() {
        return at_first("Remote connection not established yet");
    }
    let last_probe = health
        .last_success
        .map_or(String::new(), |time| format!("Last successful probe at {}", rfc3339(time)));
    let initialized_since = get(cluster, CONTROL_PLANE_INITIALIZED).map(|it| it.last_transition_time.0);
    let heard_of = health.last_success.max(initialized_since);
    if heard_of.is_none_or(|time| now.duration_since(time) > GRACE) {
        return unknown(reasons::CONNECTION_DOWN, &last_probe);
    }
    match reading {
        NodeReading::Disconnected => at_first(&last_probe),
        NodeReading::Failed => unknown(reasons::INTERNAL_ERROR, CHECK_LOGS),
        NodeReading::Found(node) => vec![ready(node), healthy(node)],
        NodeReading::Missing | NodeReading::NotLooked => missing(machine),
    }
}

fn missing(machine: &Machine) -> Vec<NewCondition> {
    let waiting = |message: &str| both(ConditionStatus::Unknown, reasons::INSPECTION_FAILED, message);
    match (node::name(machine), deleting(machine), &machine.spec.provider_id) {
        (Some(name), true, _) => {
            let message = format!("Node {name} has been deleted");
            both(ConditionStatus::False, machine_reasons::NODE_DELETED, &message)
        }
        (None, true, _) => {
            both(ConditionStatus::Unknown, machine_reasons::NODE_DOES_NOT_EXIST, "Node does not exist")
        }
        (Some(name), false, _) => {
            let message = format!("Node {name} has been deleted while the Machine still exists");
            both(ConditionStatus::False, machine_reasons::NODE_DELETED, &message)
        }
        (None, false, Some(id)) => waiting(&format!("Waiting for a Node with spec.providerID {id} to exist")),
        (None, false, None) => {
            let kind = &machine.spec.infrastructure_ref.kind;
            waiting(&format!("Waiting for {kind} to report spec.providerID"))
        }
    }
}

fn both(status: ConditionStatus, reason: &str, message: &str) -> Vec<NewCondition> {
    [NODE_READY, NODE_HEALTHY].map(|type_| NewCondition::new(type_, status, reason).message(message)).into()
}

fn find<'a>(node: &'a Node, type_: &str) -> Option<&'a NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().rfind(|condition| condition.type_ == type_)
}

fn status(condition: &NodeCondition) -> ConditionStatus {
    match condition.status.as_str() {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    }
}

fn ready(node: &Node) -> NewCondition {
    let Some(condition) = find(node, "Ready") else {
        let reason = machine_reasons::NODE_READY_UNKNOWN;
        return NewCondition::new(NODE_READY, ConditionStatus::Unknown, reason)
            .message("* Node.Ready: Condition not yet reported");
    };
    let reason = match status(condition) {
        ConditionStatus::True => machine_reasons::NODE_READY,
        ConditionStatus::False => machine_reasons::NODE_NOT_READY,
        ConditionStatus::Unknown => machine_reasons::NODE_READY_UNKNOWN,
    };
    let said = condition.message.as_deref().filter(|message| !message.is_empty());
    let message = match said {
        Some(said) if status(condition) != ConditionStatus::True => format!("* Node.Ready: {said}"),
        _ => String::new(),
    };
    let new = NewCondition::new(NODE_READY, status(condition), reason).message(message);
    match &condition.last_transition_time {
        Some(time) => new.since(time.clone()),
        None => new,
    }
}

fn healthy(node: &Node) -> NewCondition {
    let (mut bad, mut unknown) = (false, false);
    let (mut lines, mut reported, mut said) = (Vec::new(), 0, BTreeSet::new());
    for (type_, good) in HEALTH {
        let Some(condition) = find(node, type_) else {
            lines.push(format!("* Node.{type_}: Condition not yet reported"));
            unknown = true;
            continue;
        };
        let status = status(condition);
        if status == ConditionStatus::from(good) {
            continue;
        }
        match status {
            ConditionStatus::Unknown => unknown = true,
            _ => bad = true,
        }
        let message = condition.message.clone().filter(|message| !message.is_empty());
        let message = message.unwrap_or_else(|| format!("Condition is {}", condition.status));
        lines.push(format!("* Node.{type_}: {message}"));
        reported += 1;
        said.insert(message);
    }
    // A kubelet that is gone says the same four times.
    if let (true, 1, Some(message)) = (reported > 1, said.len(), said.first()) {
        lines = vec![format!("* Node.AllConditions: {message}")];
    }
    let (status, reason) = match (bad, unknown) {
        (true, _) => (ConditionStatus::False, machine_reasons::NODE_NOT_HEALTHY),
        (false, true) => (ConditionStatus::Unknown, machine_reasons::NODE_HEALTH_UNKNOWN),
        (false, false) => (ConditionStatus::True, machine_reasons::NODE_HEALTHY),
    };
    NewCondition::new(NODE_HEALTHY, status, reason).message(lines.join("\n"))
}
