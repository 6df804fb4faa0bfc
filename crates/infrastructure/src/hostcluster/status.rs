//! Status and conditions of a HostCluster, from the decision. Pure.

use capstan_api::conditions::{ConditionStatus, NewCondition, reasons as shared, set, types};
use capstan_api::infrastructure::HostCluster;
use capstan_api::wait::{Wait, causes};
use jiff::Timestamp;

use super::decide::{Decision, Endpoint};
use crate::names::hostcluster::{ENDPOINT_AVAILABLE, FAILURE_DOMAINS_KNOWN, reasons};
use crate::ready::sum_up;

/// Conditions that this controller owns.
pub(super) const OWNED: [&str; 5] =
    [types::READY, ENDPOINT_AVAILABLE, FAILURE_DOMAINS_KNOWN, types::DELETING, types::PAUSED];

/// Sets the conditions of a HostCluster that no Cluster owns yet.
pub(super) fn without_owner(host_cluster: &mut HostCluster, now: Timestamp) {
    let message = "waiting for a Cluster whose spec.infrastructureRef names this HostCluster";
    let wait = Wait::new(&causes::WAITING_FOR_CLUSTER_OWNER, message);
    set(host_cluster, wait.condition(types::READY), now);
}

/// Sets the conditions of a deletion that waits for this number of HostMachines.
pub(super) fn deleting(host_cluster: &mut HostCluster, left: usize, now: Timestamp) {
    let message = format!("waiting for {left} HostMachines of the Cluster to give their hosts back");
    let wait = Wait::new(&causes::WAITING_FOR_HOST_MACHINES, message);
    set(host_cluster, wait.condition(types::DELETING), now);
    let not = NewCondition::new(types::READY, false, shared::DELETING).message("being deleted");
    set(host_cluster, not, now);
}

/// Writes the decision into the status. A provisioned HostCluster stays provisioned.
pub fn write_status(host_cluster: &mut HostCluster, decision: &Decision, now: Timestamp) {
    let condition = match &decision.endpoint {
        Endpoint::Wait(wait) => wait.condition(ENDPOINT_AVAILABLE),
        _ => NewCondition::new(ENDPOINT_AVAILABLE, true, reasons::AVAILABLE),
    };
    set(host_cluster, condition, now);
    let condition = match &decision.domains.unknown {
        Some(why) => {
            let message = format!(
                "cannot find out which hosts control plane machines may claim: {why}; status.failureDomains keeps its \
                 last known values"
            );
            let wait = Wait::new(&causes::CONTROL_PLANE_HOSTS_UNKNOWN, message);
            NewCondition { status: ConditionStatus::Unknown, ..wait.condition(FAILURE_DOMAINS_KNOWN) }
        }
        None => NewCondition::new(FAILURE_DOMAINS_KNOWN, true, reasons::FAILURE_DOMAINS_KNOWN),
    };
    set(host_cluster, condition, now);
    let status = host_cluster.status.get_or_insert_default();
    status.failure_domains.clone_from(&decision.domains.list);
    if host_cluster.spec.control_plane_endpoint.is_some() {
        status.initialization.get_or_insert_default().provisioned = Some(true);
    }
    sum_up(host_cluster, &[ENDPOINT_AVAILABLE], now);
}
