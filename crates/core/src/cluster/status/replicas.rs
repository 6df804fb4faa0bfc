//! A Cluster's machines in numbers. Pure.

use capstan_api::conditions::{is_true, types};
use capstan_api::core::{Cluster, ClusterReplicasStatus, Machine};
use capstan_api::meta::StatusVersion;
use kube::api::DynamicObject;

use super::super::observe::{Descendants, Observed, is_direct};
use crate::external::field;
use crate::names::machine::types as machine_types;
use crate::versions;

pub(in crate::cluster) fn count(cluster: &mut Cluster, observed: &Observed) {
    let control_plane = control_plane(cluster, observed);
    let workers = observed.descendants.as_ref().map(|descendants| workers(cluster, descendants));
    let status = cluster.status.get_or_insert_default();
    if let Some(counted) = control_plane {
        status.control_plane = Some(keep_plan(counted, status.control_plane.take()));
    }
    if let Some(counted) = workers {
        status.workers = Some(keep_plan(counted, status.workers.take()));
    }
}

/// The topology writes the upgrade plan.
fn keep_plan(counted: ClusterReplicasStatus, before: Option<ClusterReplicasStatus>) -> ClusterReplicasStatus {
    let upgrade_plan = before.map(|before| before.upgrade_plan).unwrap_or_default();
    ClusterReplicasStatus { upgrade_plan, ..counted }
}

/// None if the number is unknown: then the last known number stays.
fn control_plane(cluster: &Cluster, observed: &Observed) -> Option<ClusterReplicasStatus> {
    if cluster.spec.control_plane_ref.is_some() || cluster.spec.topology.is_some() {
        return Some(observed.control_plane.found().map(of_control_plane).unwrap_or_default());
    }
    let machines = &observed.descendants.as_ref()?.control_plane_machines;
    Some(of_machines(machines.iter()))
}

fn of_control_plane(object: &DynamicObject) -> ClusterReplicasStatus {
    ClusterReplicasStatus {
        desired_replicas: field(object, "/spec/replicas"),
        replicas: field(object, "/status/replicas"),
        ready_replicas: field(object, "/status/readyReplicas"),
        available_replicas: field(object, "/status/availableReplicas"),
        up_to_date_replicas: field(object, "/status/upToDateReplicas"),
        versions: field(object, "/status/versions").unwrap_or_default(),
        upgrade_plan: Vec::new(),
    }
}

/// Machines without an owner count as desired because they exist.
fn of_machines<'a>(machines: impl Iterator<Item = &'a Machine> + Clone) -> ClusterReplicasStatus {
    let counted = |is_counted: fn(&Machine) -> bool| {
        let count = machines.clone().filter(|machine| is_counted(machine)).count();
        // No machine at all, and no machine like that, is the same to readers: nothing is written.
        (count > 0).then(|| i32::try_from(count).unwrap_or(i32::MAX))
    };
    ClusterReplicasStatus {
        desired_replicas: counted(|_| true),
        replicas: counted(|_| true),
        ready_replicas: counted(|machine| is_true(machine, types::READY)),
        available_replicas: counted(|machine| is_true(machine, types::AVAILABLE)),
        up_to_date_replicas: counted(|machine| is_true(machine, machine_types::UP_TO_DATE)),
        versions: versions::of_machines(machines),
        upgrade_plan: Vec::new(),
    }
}

fn workers(cluster: &Cluster, descendants: &Descendants) -> ClusterReplicasStatus {
    let alone = descendants.reporting_workers().filter(|machine| is_direct(cluster, *machine));
    let mut sum = of_machines(alone);
    let standing_alone = std::mem::take(&mut sum.versions);
    let mut found: Vec<StatusVersion> = Vec::new();
    // Three kinds with the same fields under different types.
    macro_rules! add {
        ($objects:expr) => {
            for object in $objects {
                let status = object.status.as_ref();
                add(&mut sum.desired_replicas, object.spec.replicas);
                add(&mut sum.replicas, status.and_then(|status| status.replicas));
                add(&mut sum.ready_replicas, status.and_then(|status| status.ready_replicas));
                add(&mut sum.available_replicas, status.and_then(|status| status.available_replicas));
                add(&mut sum.up_to_date_replicas, status.and_then(|status| status.up_to_date_replicas));
                found.extend(status.into_iter().flat_map(|status| status.versions.iter().cloned()));
            }
        };
    }
    add!(&descendants.pools);
    add!(&descendants.deployments);
    add!(descendants.sets.iter().filter(|set| is_direct(cluster, *set)));
    found.extend(standing_alone);
    ClusterReplicasStatus { versions: versions::aggregate(found), ..sum }
}

fn add(sum: &mut Option<i32>, more: Option<i32>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or_default().saturating_add(more));
    }
}
