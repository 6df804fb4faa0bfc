//! How many Machines a MachineSet creates, deletes, replaces or hands over, and their desired state. Pure.

pub(crate) mod confirm;
pub(super) mod defaults;
pub(crate) mod desired;
pub(crate) mod hand_over;
pub mod keep;
pub(super) mod leftovers;
pub(crate) mod machine;
pub mod machine_name;
pub mod preflight;
pub mod priority;
pub mod remediation;
pub mod scale;

use capstan_api::core::{Cluster, Machine, MachineSet};
use capstan_api::meta::labels;
use capstan_controller::{Next, owners};
use kube::ResourceExt as _;
use std::time::Duration;

/// Nodes become ready without an event in the management cluster.
const UNTIL_READY: Duration = Duration::from_secs(15);

/// Whether any of its machines is kept.
pub(super) fn kept(set: &MachineSet, machines: &[Machine]) -> bool {
    let specs = machines.iter().map(|machine| &machine.spec).chain([&set.spec.template.spec]);
    specs.into_iter().any(capstan_api::keep::is_kept)
}

pub(super) fn is_deleting(set: &MachineSet) -> bool {
    set.metadata.deletion_timestamp.is_some()
}

/// Makes the MachineSet part of its Cluster; owned by it unless a MachineDeployment is in between.
pub(super) fn claim(set: &mut MachineSet, cluster: &Cluster) {
    let owned = ["MachineDeployment", "Cluster"]
        .iter()
        .any(|kind| owners::of_kind(&set.metadata, kind, crate::names::GROUP).is_some());
    if !owned
        && !set.labels().contains_key(labels::DEPLOYMENT_NAME)
        && let Some(owner) = owners::plain(cluster)
    {
        owners::ensure(&mut set.metadata, &owner);
    }
}

/// When to reconcile again without an event.
pub(super) fn look_again(set: &MachineSet) -> Next {
    if is_deleting(set) {
        return Next::Changed;
    }
    let status = set.status.clone().unwrap_or_default();
    let (replicas, ready) = (set.spec.replicas.unwrap_or(0), status.ready_replicas.unwrap_or(0));
    let min_ready = set.spec.template.spec.min_ready_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(0);
    if ready != replicas {
        return Next::After(UNTIL_READY);
    }
    match min_ready > 0 && status.available_replicas.unwrap_or(0) != replicas {
        true => Next::After(Duration::from_secs(min_ready)),
        false => Next::Changed,
    }
}
