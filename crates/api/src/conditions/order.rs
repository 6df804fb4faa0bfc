//! Order of the conditions in an object: most relevant for users first.

use std::cmp::Ordering;

use super::{Condition, types};

/// From the most general to the most detailed: availability, parts, progress, Machines.
const FIRST: &[&str] = &[
    types::AVAILABLE,
    types::READY,
    "UpToDate",
    "RemoteConnectionProbe",
    types::BOOTSTRAP_CONFIG_READY,
    types::INFRASTRUCTURE_READY,
    "ControlPlaneInitialized",
    "ControlPlaneAvailable",
    "WorkersAvailable",
    "CertificatesAvailable",
    "Initialized",
    "EtcdClusterHealthy",
    "ControlPlaneComponentsHealthy",
    "NodeHealthy",
    "NodeReady",
    "NodeKubeadmLabelsAndTaintsSet",
    "EtcdPodHealthy",
    "EtcdMemberHealthy",
    "APIServerPodHealthy",
    "ControllerManagerPodHealthy",
    "SchedulerPodHealthy",
    "HealthCheckSucceeded",
    "OwnerRemediated",
    "TopologyReconciled",
    "Updating",
    types::ROLLING_OUT,
    types::REMEDIATING,
    types::SCALING_DOWN,
    types::SCALING_UP,
    types::MACHINES_READY,
    "ControlPlaneMachinesReady",
    "WorkerMachinesReady",
    types::MACHINES_UP_TO_DATE,
    "ControlPlaneMachinesUpToDate",
    "WorkerMachinesUpToDate",
];

/// These types come after all types that are not listed, such as custom readiness gates.
const LAST: &[&str] = &[types::PAUSED, types::DELETING];

/// Sorts conditions. Types that are not listed are sorted by name.
pub fn sort(conditions: &mut [Condition]) {
    conditions.sort_by(compare);
}

fn compare(a: &Condition, b: &Condition) -> Ordering {
    rank(&a.type_).cmp(&rank(&b.type_)).then_with(|| a.type_.cmp(&b.type_))
}

fn rank(type_: &str) -> usize {
    let place_in = |list: &[&str]| list.iter().position(|listed| *listed == type_);
    match (place_in(FIRST), place_in(LAST)) {
        (Some(place), _) => place,
        (None, None) => FIRST.len(),
        (None, Some(place)) => FIRST.len() + 1 + place,
    }
}
