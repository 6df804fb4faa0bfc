//! Which Machines are unhealthy, and whether something may be done about them. Pure.

pub mod health;
pub mod node;
pub mod trigger;

use capstan_api::core::{Cluster, Machine, MachineHealthCheck};
use capstan_api::meta::{annotations, labels};
use capstan_controller::{Error, Knowledge, Result, owners};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;

use crate::machineset::status::whole;
use node::{Found, NodeIndex};

pub(super) use health::Health;
pub(super) use trigger::Allowed;

/// A Machine with what was found.
pub(super) struct Target {
    pub(super) machine: Machine,
    pub(super) health: Health,
}

impl Target {
    /// The Node that has to be read live before the finding counts; none if the finding is not about a Node.
    pub(super) fn node_to_confirm(&self) -> Option<&str> {
        match &self.health {
            Health::Unhealthy { reason, .. } if node::is_about_node(reason) => node::name(&self.machine),
            _ => None,
        }
    }
}

/// The numbers, and what they allow.
pub(super) struct Judgement {
    pub(super) expected: i32,
    pub(super) healthy: i32,
    pub(super) allowed: Allowed,
}

impl Judgement {
    /// Whether unhealthy Machines may be remediated.
    pub(super) fn is_allowed(&self) -> bool {
        matches!(self.allowed, Allowed::Yes(_))
    }
}

/// Makes the MachineHealthCheck part of its Cluster.
pub(super) fn claim(check: &mut MachineHealthCheck, cluster: &Cluster) {
    let name = check.spec.cluster_name.clone();
    check.metadata.labels.get_or_insert_default().insert(labels::CLUSTER_NAME.to_owned(), name);
    if let Some(owner) = owners::plain(cluster) {
        owners::ensure(&mut check.metadata, &owner);
    }
}

/// Whether a Machine is left out by its annotations.
pub(super) fn is_skipped(machine: &Machine) -> bool {
    [annotations::PAUSED, annotations::SKIP_REMEDIATION]
        .iter()
        .any(|key| machine.annotations().contains_key(*key))
}

/// Judges a Machine by its Node as it is in memory.
pub(super) fn target<I: NodeIndex>(
    cluster: &Cluster,
    check: &MachineHealthCheck,
    machine: Machine,
    nodes: Option<&Knowledge<I>>,
    now: Timestamp,
) -> Target {
    let seen = node::find(nodes, &machine);
    judged(cluster, check, machine, &seen, now)
}

/// Judges a Machine again, by its Node as it was read live.
pub(super) fn confirmed(
    cluster: &Cluster,
    check: &MachineHealthCheck,
    target: Target,
    node: Knowledge<Option<Node>>,
    now: Timestamp,
) -> Target {
    judged(cluster, check, target.machine, &node::read(node), now)
}

fn judged(
    cluster: &Cluster,
    check: &MachineHealthCheck,
    machine: Machine,
    seen: &Found,
    now: Timestamp,
) -> Target {
    let checks = check.spec.checks.clone().unwrap_or_default();
    let health = health::check(cluster, &machine, &seen.of(&machine), &checks, now);
    Target { machine, health }
}

/// Counts the Machines, and compares the numbers with what the MachineHealthCheck allows.
pub(super) fn judge(check: &MachineHealthCheck, targets: &[Target]) -> Result<Judgement> {
    let healthy = targets.iter().filter(|target| target.health == Health::Healthy).count();
    let unhealthy = targets.iter().filter(|target| matches!(target.health, Health::Unhealthy { .. })).count();
    let (expected, healthy) = (whole(targets.len()), whole(healthy));
    let remediation = check.spec.remediation.clone().unwrap_or_default();
    let limits = remediation.trigger_if.unwrap_or_default();
    let allowed = trigger::judge(&limits, expected, healthy, unhealthy).map_err(|problem| {
        let field = format!("MachineHealthCheck {} spec.remediation.triggerIf", check.name_any());
        Error::user(field, problem.to_string())
    })?;
    Ok(Judgement { expected, healthy, allowed })
}
