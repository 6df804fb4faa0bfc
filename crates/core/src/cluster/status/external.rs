//! Conditions that are copied from the infrastructure and the control plane.

use capstan_api::conditions::{ConditionStatus, NewCondition, is_true, reasons, types};
use capstan_api::core::Cluster;
use jiff::Timestamp;

use super::super::decide::handoff::{initialized, is_deleting, provisioned};
use super::super::observe::Observed;
use super::internal_error;
use crate::external::{self, Mirrored, Reading, flag};
use crate::names::cluster::{reasons as cluster_reasons, types as cluster_types};

const WAITING_FOR_TOPOLOGY: &str = "Waiting for cluster topology to be reconciled";

pub(super) fn infrastructure_ready(
    cluster: &Cluster,
    reading: &Reading,
    now: Timestamp,
) -> Option<NewCondition> {
    let Some(reference) = &cluster.spec.infrastructure_ref else {
        return Some(unreferenced(cluster, types::INFRASTRUCTURE_READY, reasons::READY));
    };
    let (done, deleting) = (provisioned(cluster), is_deleting(cluster));
    Some(external::infrastructure_ready(&reference.kind, done, deleting, "cluster").condition(reading, now))
}

pub(super) fn control_plane_available(
    cluster: &Cluster,
    reading: &Reading,
    now: Timestamp,
) -> Option<NewCondition> {
    let Some(reference) = &cluster.spec.control_plane_ref else {
        return Some(unreferenced(cluster, cluster_types::CONTROL_PLANE_AVAILABLE, reasons::AVAILABLE));
    };
    let mirrored = Mirrored {
        target: cluster_types::CONTROL_PLANE_AVAILABLE,
        source: types::AVAILABLE,
        kind: &reference.kind,
        done: initialized(cluster),
        done_field: "status.initialization.controlPlaneInitialized",
        fallback: (reasons::AVAILABLE, reasons::NOT_AVAILABLE),
        deleting: is_deleting(cluster),
        survivor: Some("cluster"),
    };
    Some(mirrored.condition(reading, now))
}

/// A topology will make the object. Without one there is nothing that could be missing: upstream reports an internal
/// error there, which keeps such a Cluster from ever being Available.
fn unreferenced(cluster: &Cluster, type_: &str, fine: &str) -> NewCondition {
    if cluster.spec.topology.is_none() {
        return NewCondition::new(type_, ConditionStatus::True, fine);
    }
    let message = if is_deleting(cluster) { "" } else { WAITING_FOR_TOPOLOGY };
    NewCondition::new(type_, ConditionStatus::False, reasons::OBJECT_DOES_NOT_EXIST).message(message)
}

/// Sticky: none once it is True.
pub(super) fn control_plane_initialized(cluster: &Cluster, observed: &Observed) -> Option<NewCondition> {
    const TYPE: &str = cluster_types::CONTROL_PLANE_INITIALIZED;
    let new =
        |status, reason: &str, message: &str| Some(NewCondition::new(TYPE, status, reason).message(message));
    let is_so = || new(ConditionStatus::True, cluster_reasons::INITIALIZED, "");
    let not_yet = |message: &str| new(ConditionStatus::False, cluster_reasons::NOT_INITIALIZED, message);
    let does_not_exist =
        |message: &str| new(ConditionStatus::Unknown, reasons::OBJECT_DOES_NOT_EXIST, message);

    if is_true(cluster, TYPE) {
        return None;
    }
    let Some(reference) = &cluster.spec.control_plane_ref else {
        if cluster.spec.topology.is_some() {
            return does_not_exist(if is_deleting(cluster) { "" } else { WAITING_FOR_TOPOLOGY });
        }
        // Machines without a control plane object: the first Node shows that there is an API server.
        let Some(descendants) = &observed.descendants else { return Some(internal_error(TYPE)) };
        let has_node = descendants
            .control_plane_machines
            .iter()
            .any(|machine| machine.status.as_ref().is_some_and(|status| status.node_ref.is_some()));
        return match has_node {
            true => is_so(),
            false => not_yet("Waiting for the first control plane machine to have status.nodeRef set"),
        };
    };
    match &observed.control_plane {
        Reading::Found(object) if flag(object, "/status/initialization/controlPlaneInitialized") => is_so(),
        Reading::Found(_) => not_yet("Control plane not yet initialized"),
        Reading::Missing => does_not_exist(&format!("{} does not exist", reference.kind)),
        Reading::Unreadable | Reading::Unreferenced => Some(internal_error(TYPE)),
    }
}
