//! The condition `TopologyReconciled` of a Cluster, and the upgrade plan in its status. Pure.

use capstan_api::conditions::{NewCondition, reasons, set};
use capstan_api::core::{Cluster, ClusterReplicasStatus, StatusUpgradePlanVersion};
use capstan_controller::Error;
use capstan_controller::error::chain;
use capstan_topology::desired::Computed;
use capstan_topology::upgrade::WorkersProgress;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::names::cluster::reasons as own;
use crate::names::cluster::types::TOPOLOGY_RECONCILED;

/// Condition types that belong to this controller.
pub(super) const OWNED: [&str; 1] = [TOPOLOGY_RECONCILED];

/// Names of one kind that a message has.
const NAMES: usize = 3;

/// What a reconcile came to.
pub(super) enum Outcome {
    /// Nothing was done, because the Cluster is paused.
    Paused(String),
    /// Nothing was done, because the Cluster is being deleted.
    Deleting,
    /// Nothing was done, because the class was not observed yet.
    ClassNotReconciled(String),
    /// It failed.
    Failed(Error),
    /// Everything that is due now is written.
    Reconciled(Box<Computed>),
}

/// Sets the condition, and the plan if it was computed.
pub(super) fn update(cluster: &mut Cluster, outcome: &Outcome, now: Timestamp) {
    if let Outcome::Reconciled(computed) = outcome {
        plan(cluster, computed);
    }
    let version = cluster.spec.topology.as_ref().map(|topology| topology.version.clone());
    set(cluster, condition(outcome, &version.unwrap_or_default()), now);
}

fn plan(cluster: &mut Cluster, computed: &Computed) {
    let progress = &computed.progress;
    // MachinePools are upgraded after MachineDeployments.
    let workers = match progress.machine_pools.plan.as_slice() {
        [] => &progress.machine_deployments.plan,
        _ => &progress.machine_pools.plan,
    };
    let status = cluster.status.get_or_insert_default();
    set_plan(&mut status.control_plane, &progress.control_plane.plan);
    set_plan(&mut status.workers, workers);
}

fn set_plan(status: &mut Option<ClusterReplicasStatus>, plan: &[String]) {
    let plan = plan.iter().map(|version| StatusUpgradePlanVersion { version: version.clone() }).collect();
    match status {
        Some(status) => status.upgrade_plan = plan,
        None if plan.is_empty() => {}
        None => *status = Some(ClusterReplicasStatus { upgrade_plan: plan, ..Default::default() }),
    }
}

fn condition(outcome: &Outcome, version: &str) -> NewCondition {
    let not =
        |reason: &str, message: &str| NewCondition::new(TOPOLOGY_RECONCILED, false, reason).message(message);
    match outcome {
        Outcome::Paused(why) => not(reasons::PAUSED, why),
        Outcome::Deleting => not(reasons::DELETING, "Cluster is deleting"),
        Outcome::ClassNotReconciled(why) => not(own::CLUSTER_CLASS_NOT_RECONCILED, why),
        Outcome::Failed(error) => not(own::TOPOLOGY_RECONCILE_FAILED, &chain(error)),
        Outcome::Reconciled(computed) => match upgrading(computed, version) {
            Some((reason, message)) => not(reason, &message),
            None => NewCondition::new(TOPOLOGY_RECONCILED, true, own::TOPOLOGY_RECONCILE_SUCCEEDED),
        },
    }
}

/// Reason and message while an upgrade is in progress, or something waits for its end.
fn upgrading(computed: &Computed, version: &str) -> Option<(&'static str, String)> {
    let progress = &computed.progress;
    let control_plane = &progress.control_plane;
    let waits = |workers: &WorkersProgress| {
        [&workers.pending, &workers.upgrading, &workers.deferred, &workers.pending_create]
            .iter()
            .any(|names| !names.is_empty())
    };
    let is_upgrading = control_plane.is_pending
        || control_plane.is_starting
        || control_plane.is_upgrading
        || waits(&progress.machine_deployments)
        || waits(&progress.machine_pools);
    if !is_upgrading {
        return None;
    }
    let object = &computed.desired.control_plane.object;
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, step) = (text("/kind"), text("/spec/version"));
    let mut message = format!("Cluster is upgrading to {version}");
    let is_moving = control_plane.is_starting || control_plane.is_upgrading;
    if is_moving {
        let pending = later(&control_plane.plan, step);
        // Writing to a String cannot fail.
        _ = write!(message, "\n  * {kind} upgrading to version {step}{pending}");
    } else if !control_plane.plan.is_empty() {
        _ = write!(message, "\n  * {kind} pending upgrade to version {}", control_plane.plan.join(", "));
    }
    let mut reason = own::CLUSTER_UPGRADING;
    for (workers, kind, deferred) in [
        (&progress.machine_deployments, "MachineDeployment", own::MACHINE_DEPLOYMENTS_UPGRADE_DEFERRED),
        (&progress.machine_pools, "MachinePool", own::MACHINE_POOLS_UPGRADE_DEFERRED),
    ] {
        let is_held = describe(workers, kind, step, &mut message);
        if is_held && !is_moving && reason == own::CLUSTER_UPGRADING {
            reason = deferred;
        }
    }
    Some((reason, message))
}

/// Adds how far the workers of one kind are. Gives whether all that are behind wait because of an annotation.
fn describe(workers: &WorkersProgress, kind: &str, step: &str, message: &mut String) -> bool {
    let without = |names: &BTreeSet<String>, others: &[&BTreeSet<String>]| -> Vec<String> {
        names.iter().filter(|name| others.iter().all(|other| !other.contains(*name))).cloned().collect()
    };
    let upgrading: Vec<String> = workers.upgrading.iter().cloned().collect();
    let deferred = without(&workers.deferred, &[&workers.upgrading]);
    let pending = without(&workers.pending, &[&workers.upgrading, &workers.deferred]);
    if !upgrading.is_empty() {
        let (names, more) = (listed(kind, &upgrading), later(&workers.plan, step));
        _ = write!(message, "\n  * {names} upgrading to version {step}{more}");
    }
    if !pending.is_empty() && !workers.plan.is_empty() {
        let (names, plan) = (listed(kind, &pending), workers.plan.join(", "));
        _ = write!(message, "\n  * {names} pending upgrade to version {plan}");
    }
    if !deferred.is_empty() {
        let names = listed(kind, &deferred);
        _ = write!(
            message,
            "\n  * {names} upgrade to version {step} deferred using defer-upgrade or hold-upgrade-sequence annotations"
        );
    }
    if !workers.pending_create.is_empty() {
        let names: Vec<String> = workers.pending_create.iter().cloned().collect();
        let names = listed(kind, &names);
        _ = write!(message, "\n  * {names} creation deferred while control plane upgrade is in progress");
    }
    !deferred.is_empty() && upgrading.is_empty() && pending.is_empty()
}

/// The versions of a plan that follow.
fn later(plan: &[String], version: &str) -> String {
    let rest: Vec<&str> = plan.iter().map(String::as_str).filter(|one| *one != version).collect();
    if rest.is_empty() { String::new() } else { format!(" ({} pending)", rest.join(", ")) }
}

fn listed(kind: &str, names: &[String]) -> String {
    match names.len() {
        1 => format!("{kind} {}", names[0]),
        2..=NAMES => format!("{kind}s {}", names.join(", ")),
        more => format!("{kind}s {}, ... ({} more)", names[..NAMES].join(", "), more - NAMES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_topology::state::Desired;
    use capstan_topology::upgrade::Progress;
    use serde_json::json;

    fn computed(change: impl FnOnce(&mut Progress)) -> Computed {
        let mut desired = Desired::default();
        desired.control_plane.object = json!({"kind": "Plane", "spec": {"version": "v1.2.0"}});
        let mut progress = Progress::default();
        change(&mut progress);
        Computed { desired, progress }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_upgrade_is_described() {
        for (computed, reason, message) in [
            (
                computed(|progress| {
                    progress.control_plane.is_starting = true;
                    progress.control_plane.plan = vec!["v1.2.0".to_owned(), "v1.3.0".to_owned()];
                    progress.machine_deployments.pending = names(&["a", "b"]);
                    progress.machine_deployments.plan = vec!["v1.3.0".to_owned()];
                }),
                "ClusterUpgrading",
                "Cluster is upgrading to v1.3.0\n  * Plane upgrading to version v1.2.0 (v1.3.0 pending)\
                 \n  * MachineDeployments a, b pending upgrade to version v1.3.0",
            ),
            (
                computed(|progress| {
                    progress.machine_deployments.upgrading = names(&["a"]);
                    progress.machine_deployments.pending = names(&["a", "b", "c", "d", "e", "f"]);
                    progress.machine_deployments.deferred = names(&["b"]);
                    progress.machine_deployments.plan = vec!["v1.2.0".to_owned()];
                }),
                "ClusterUpgrading",
                "Cluster is upgrading to v1.3.0\n  * MachineDeployment a upgrading to version v1.2.0\
                 \n  * MachineDeployments c, d, e, ... (1 more) pending upgrade to version v1.2.0\
                 \n  * MachineDeployment b upgrade to version v1.2.0 deferred using defer-upgrade or hold-upgrade-sequence annotations",
            ),
            (
                computed(|progress| progress.machine_deployments.deferred = names(&["b"])),
                "MachineDeploymentsUpgradeDeferred",
                "Cluster is upgrading to v1.3.0\n  * MachineDeployment b upgrade to version v1.2.0 deferred using defer-upgrade or hold-upgrade-sequence annotations",
            ),
            (
                computed(|progress| {
                    progress.control_plane.is_pending = true;
                    progress.control_plane.plan = vec!["v1.3.0".to_owned()];
                    progress.machine_pools.pending_create = names(&["p"]);
                }),
                "ClusterUpgrading",
                "Cluster is upgrading to v1.3.0\n  * Plane pending upgrade to version v1.3.0\
                 \n  * MachinePool p creation deferred while control plane upgrade is in progress",
            ),
        ] {
            let condition = condition(&Outcome::Reconciled(Box::new(computed)), "v1.3.0");
            assert_eq!((condition.reason.as_str(), condition.message.as_str()), (reason, message));
        }
    }

    #[test]
    fn a_topology_without_an_upgrade_is_reconciled() {
        let done = Outcome::Reconciled(Box::new(computed(|_| {})));
        for (outcome, reason, message) in [
            (done, "ReconcileSucceeded", ""),
            (Outcome::Deleting, "Deleting", "Cluster is deleting"),
            (Outcome::Paused("p".to_owned()), "Paused", "p"),
            (Outcome::ClassNotReconciled("c".to_owned()), "ClusterClassNotReconciled", "c"),
            (
                Outcome::Failed(Error::user("Cluster a/b", "is wrong")),
                "ReconcileFailed",
                "Cluster a/b: is wrong",
            ),
        ] {
            let condition = condition(&outcome, "v1.3.0");
            assert_eq!((condition.reason.as_str(), condition.message.as_str()), (reason, message));
        }
    }

    #[test]
    fn the_plan_is_shown_until_it_is_carried_out() {
        let mut cluster: Cluster = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"}, "spec": {},
        }))
        .expect("a Cluster");
        let plans = |cluster: &Cluster| {
            let status = cluster.status.clone().unwrap_or_default();
            let of = |part: Option<ClusterReplicasStatus>| part.map_or(0, |part| part.upgrade_plan.len());
            (of(status.control_plane), of(status.workers))
        };
        plan(&mut cluster, &computed(|_| {}));
        assert_eq!(json!(cluster.status), json!({}), "nothing is written without a plan");
        plan(
            &mut cluster,
            &computed(|progress| {
                progress.control_plane.plan = vec!["a".to_owned(), "b".to_owned()];
                progress.machine_deployments.plan = vec!["b".to_owned()];
            }),
        );
        assert_eq!(plans(&cluster), (2, 1));
        plan(&mut cluster, &computed(|_| {}));
        assert_eq!(plans(&cluster), (0, 0));
    }
}
