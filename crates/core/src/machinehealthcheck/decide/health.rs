//! Whether a Machine is healthy, and if not yet unhealthy, when it might be. Pure.

use capstan_api::conditions::{Conditioned, get, is_true, types as shared};
use capstan_api::core::{Cluster, Machine, MachineHealthCheckChecks};
use capstan_api::meta::{annotations, labels};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use std::time::Duration;

use super::super::names::reasons;
use crate::names::cluster::types as cluster_types;

/// Default of the time that a Node may take to appear.
const DEFAULT_STARTUP_SECONDS: i32 = 600;
/// Conditions have whole seconds: a second later it is certain.
const A_SECOND: SignedDuration = SignedDuration::from_secs(1);

/// The Node of a Machine.
#[derive(Clone, Debug)]
pub enum NodeSeen<'a> {
    /// The workload cluster did not respond, and why. Says nothing about the Node.
    Unknown(&'a str),
    /// The Machine has no Node yet: the workload cluster has none, or does not exist yet.
    None,
    /// The Machine had this Node, and it is deleted.
    Gone(&'a str),
    /// The Node exists.
    There(&'a Node),
}

/// The result of a health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// No check fails.
    Healthy,
    /// A check fails, and its timeout has not passed. Check again after this time, if there is one.
    Waiting(Option<Duration>),
    /// The Machine must be remediated.
    Unhealthy {
        /// As one word.
        reason: &'static str,
        /// For people.
        message: String,
    },
}

/// Checks one Machine.
pub fn check(
    cluster: &Cluster,
    machine: &Machine,
    node: &NodeSeen<'_>,
    checks: &MachineHealthCheckChecks,
    now: Timestamp,
) -> Health {
    if machine.annotations().contains_key(annotations::REMEDIATE_MACHINE) {
        let key = annotations::REMEDIATE_MACHINE;
        let message = format!("Health check failed: marked for remediation via {key} annotation");
        return Health::Unhealthy { reason: reasons::HAS_REMEDIATE_ANNOTATION, message };
    }
    // Before the control plane is initialized, only the machine that initializes it can be unhealthy.
    let is_control_plane = machine.labels().contains_key(labels::CONTROL_PLANE);
    if (!is_true(cluster, cluster_types::CONTROL_PLANE_INITIALIZED) && !is_control_plane)
        || !is_true(cluster, shared::INFRASTRUCTURE_READY)
    {
        return without_findings(machine, node);
    }

    let mut findings = machine_findings(machine, checks, now);
    let from_machine = !findings.problems.is_empty();
    let of_node = node_findings(cluster, machine, node, checks, now);
    let reason = if from_machine { reasons::UNHEALTHY_MACHINE } else { of_node.reason };
    findings.problems.extend(of_node.problems);
    if !findings.problems.is_empty() {
        let lines: Vec<String> = findings.problems.iter().map(|problem| format!("  * {problem}")).collect();
        return Health::Unhealthy { reason, message: format!("Health check failed:\n{}", lines.join("\n")) };
    }
    match findings.next.into_iter().chain(of_node.next).min() {
        Some(next) => Health::Waiting(Duration::try_from(next).ok()),
        None => without_findings(machine, node),
    }
}

fn without_findings(machine: &Machine, node: &NodeSeen<'_>) -> Health {
    match node {
        NodeSeen::There(_) if machine.metadata.deletion_timestamp.is_none() => Health::Healthy,
        _ => Health::Waiting(None),
    }
}

#[derive(Default)]
struct Findings {
    reason: &'static str,
    problems: Vec<String>,
    /// When the next problem is due.
    next: Option<SignedDuration>,
}

impl Findings {
    /// A state that has lasted since `since` and may last for `timeout_seconds`.
    fn lasting(
        &mut self,
        since: Timestamp,
        timeout_seconds: i32,
        now: Timestamp,
        problem: impl Fn(String) -> String,
    ) {
        let timeout = SignedDuration::from_secs(timeout_seconds.into());
        let lasted = now.duration_since(since);
        if lasted > timeout {
            self.problems.push(problem(spelt(timeout_seconds)));
            return;
        }
        let left = timeout - lasted + A_SECOND;
        self.next = Some(self.next.map_or(left, |next| next.min(left)));
    }
}

fn machine_findings(machine: &Machine, checks: &MachineHealthCheckChecks, now: Timestamp) -> Findings {
    let mut findings = Findings::default();
    for check in &checks.unhealthy_machine_conditions {
        let Some(condition) = get(machine, &check.type_).filter(|condition| condition.status == check.status)
        else {
            continue;
        };
        findings.lasting(condition.last_transition_time.0, check.timeout_seconds, now, |timeout| {
            let (type_, status, reason) = (&check.type_, &check.status, &condition.reason);
            format!("Condition {type_} on Machine is reporting status {status} with reason {reason} for more than {timeout}")
        });
    }
    findings
}

fn node_findings(
    cluster: &Cluster,
    machine: &Machine,
    node: &NodeSeen<'_>,
    checks: &MachineHealthCheckChecks,
    now: Timestamp,
) -> Findings {
    let mut findings = Findings::default();
    match node {
        // A Node that cannot be read is neither deleted nor late: only the conditions of the Machine count.
        NodeSeen::Unknown(_) => {}
        NodeSeen::Gone(name) => {
            findings.reason = reasons::NODE_DELETED;
            findings.problems.push(format!("Node {name} has been deleted"));
        }
        NodeSeen::None => {
            let timeout = checks.node_startup_timeout_seconds.unwrap_or(DEFAULT_STARTUP_SECONDS);
            if timeout > 0 {
                findings.reason = reasons::NODE_STARTUP_TIMEOUT;
                findings.lasting(could_start(cluster, machine, now), timeout, now, |timeout| {
                    format!("Node failed to report startup in {timeout}")
                });
            }
        }
        NodeSeen::There(node) => {
            findings.reason = reasons::UNHEALTHY_NODE;
            let conditions =
                node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
            for check in &checks.unhealthy_node_conditions {
                let same = |it: &&_| is_same(it, &check.type_, &check.status);
                let Some(conditions) = conditions.iter().find(same) else { continue };
                let since = conditions.last_transition_time.as_ref().map_or(now, |time| time.0);
                findings.lasting(since, check.timeout_seconds, now, |timeout| {
                    let (type_, status) = (&check.type_, &check.status);
                    let reason = conditions.reason.as_deref().unwrap_or_default();
                    format!("Condition {type_} on Node is reporting status {status} with reason {reason} for more than {timeout}")
                });
            }
        }
    }
    findings
}

fn is_same(condition: &k8s_openapi::api::core::v1::NodeCondition, type_: &str, status: &str) -> bool {
    condition.type_ == type_ && condition.status == status
}

/// Since when nothing has stood in the way of a Node: the latest of what it had to wait for.
fn could_start(cluster: &Cluster, machine: &Machine, now: Timestamp) -> Timestamp {
    fn since<T: Conditioned>(object: &T, type_: &str) -> Option<Timestamp> {
        is_true(object, type_)
            .then(|| get(object, type_).map(|condition| condition.last_transition_time.0))
            .flatten()
    }
    let created = machine.metadata.creation_timestamp.as_ref().map_or(now, |created| created.0);
    [
        since(cluster, cluster_types::CONTROL_PLANE_INITIALIZED),
        since(cluster, shared::INFRASTRUCTURE_READY),
        since(machine, shared::INFRASTRUCTURE_READY),
    ]
    .into_iter()
    .flatten()
    .fold(created, Timestamp::max)
}

/// A time as Go spells it, which is how messages have always spelt it: `1h0m0s`, `5m0s`, `30s`.
fn spelt(seconds: i32) -> String {
    let (hours, minutes, left) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{left}s"),
        (0, _) => format!("{minutes}m{left}s"),
        _ => format!("{hours}h{minutes}m{left}s"),
    }
}

/// Whether a finding still holds for the current Node. A finding is stored in a condition, which may be stale: read
/// by a restarted process, or after the Node has recovered.
pub fn still_holds(reason: &str, message: &str, node: Option<&Node>) -> bool {
    let is_ready = node.is_some_and(|node| {
        let conditions =
            node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        conditions.iter().any(|conditions| is_same(conditions, "Ready", "True"))
    });
    match reason {
        reasons::NODE_STARTUP_TIMEOUT | reasons::NODE_DELETED => node.is_none(),
        // A Node may be Ready and unhealthy for another reason, which only the health check knows.
        reasons::UNHEALTHY_NODE if message.contains("Condition Ready on Node") => !is_ready,
        _ => true,
    }
}

#[cfg(test)]
#[path = "tests/health.rs"]
mod tests;
