//! The status of a Cluster: numbers, phase and conditions, all from what was observed. Pure.

mod available;
mod external;
mod machines;
mod progress;
mod remote;
pub(super) mod replicas;

use capstan_api::conditions::{ConditionStatus, NewCondition, reasons, set, types};
use capstan_api::core::{Cluster, ClusterPhase};
use jiff::Timestamp;

use super::decide::delete::Deletion;
use super::decide::handoff::{is_deleting, provisioned};
use super::observe::Observed;
use crate::names::CHECK_LOGS;
use crate::names::cluster::types as cluster_types;

/// The condition types whose word is this controller's.
pub(super) const OWNED: &[&str] = &[
    types::PAUSED,
    types::INFRASTRUCTURE_READY,
    cluster_types::CONTROL_PLANE_AVAILABLE,
    cluster_types::CONTROL_PLANE_INITIALIZED,
    cluster_types::CONTROL_PLANE_MACHINES_READY,
    cluster_types::CONTROL_PLANE_MACHINES_UP_TO_DATE,
    cluster_types::WORKERS_AVAILABLE,
    cluster_types::WORKER_MACHINES_READY,
    cluster_types::WORKER_MACHINES_UP_TO_DATE,
    cluster_types::REMOTE_CONNECTION_PROBE,
    types::ROLLING_OUT,
    types::SCALING_UP,
    types::SCALING_DOWN,
    types::REMEDIATING,
    types::DELETING,
    types::AVAILABLE,
];

/// Sets numbers, phase and every condition; `Available` last, because it sums the others up.
pub(super) fn update(
    cluster: &mut Cluster,
    observed: &Observed,
    deletion: Option<&Deletion>,
    now: Timestamp,
) {
    replicas::count(cluster, observed);
    set_phase(cluster);
    let conditions = [
        remote::probe(cluster, observed.health, now),
        external::infrastructure_ready(cluster, &observed.infrastructure, now),
        external::control_plane_available(cluster, &observed.control_plane, now),
        external::control_plane_initialized(cluster, observed),
        progress::workers_available(observed),
        machines::ready(cluster_types::CONTROL_PLANE_MACHINES_READY, observed.control_plane_machines()),
        machines::ready(cluster_types::WORKER_MACHINES_READY, observed.workers()),
        machines::up_to_date(
            cluster_types::CONTROL_PLANE_MACHINES_UP_TO_DATE,
            observed.control_plane_machines(),
            now,
        ),
        machines::up_to_date(cluster_types::WORKER_MACHINES_UP_TO_DATE, observed.workers(), now),
        progress::rolling_out(cluster, observed, now),
        progress::scaling_up(cluster, observed, now),
        progress::scaling_down(cluster, observed, now),
        machines::remediating(observed),
        deleting(cluster, deletion),
    ];
    for condition in conditions {
        set_some(cluster, condition, now);
    }
    let available = available::available(cluster);
    set(cluster, available, now);
}

/// None leaves what is there.
fn set_some(cluster: &mut Cluster, condition: Option<NewCondition>, now: Timestamp) {
    if let Some(condition) = condition {
        set(cluster, condition, now);
    }
}

fn set_phase(cluster: &mut Cluster) {
    let has_reference = cluster.spec.infrastructure_ref.is_some() || cluster.spec.control_plane_ref.is_some();
    let has_endpoint =
        cluster.spec.control_plane_endpoint.as_ref().is_some_and(capstan_api::meta::ApiEndpoint::is_valid);
    let before = cluster.status.as_ref().and_then(|status| status.phase);
    let phase = if is_deleting(cluster) {
        ClusterPhase::Deleting
    } else if provisioned(cluster) && has_endpoint {
        ClusterPhase::Provisioned
    } else if has_reference {
        ClusterPhase::Provisioning
    } else {
        before.unwrap_or(ClusterPhase::Pending)
    };
    cluster.status.get_or_insert_default().phase = Some(phase);
}

fn deleting(cluster: &Cluster, deletion: Option<&Deletion>) -> Option<NewCondition> {
    let new = NewCondition::new;
    Some(match deletion {
        Some(deletion) => new(types::DELETING, true, deletion.reason).message(&*deletion.message),
        None if is_deleting(cluster) => {
            new(types::DELETING, true, reasons::INTERNAL_ERROR).message(CHECK_LOGS)
        }
        None => new(types::DELETING, false, reasons::NOT_DELETING),
    })
}

/// A condition that cannot be worked out; the log says why.
fn internal_error(type_: &str) -> NewCondition {
    NewCondition::new(type_, ConditionStatus::Unknown, reasons::INTERNAL_ERROR).message(CHECK_LOGS)
}
