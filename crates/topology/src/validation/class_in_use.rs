//! Changes of a class that its clusters do not allow.

use super::class::ClassChange;
use super::cluster::autoscaled;
use crate::field;
use crate::object;
use capstan_api::core::{
    Cluster, ClusterClass, MachineDeploymentClass, TopologyHealthCheck, WorkersClass, WorkersTopology,
};
use capstan_apiserver_schema::FieldError;
use serde::Serialize;

pub(super) fn check(class: &ClusterClass, change: ClassChange<'_>) -> Vec<FieldError> {
    let mut errors = versions(class, change.clusters);
    errors.extend(removed_workers(class, change));
    errors.extend(removed_health_checks(class, change));
    errors.extend(change.clusters.iter().flat_map(|cluster| autoscaled(cluster, Some(class))));
    errors
}

fn name(cluster: &Cluster) -> &str {
    cluster.metadata.name.as_deref().unwrap_or_default()
}

fn versions(class: &ClusterClass, clusters: &[Cluster]) -> Vec<FieldError> {
    let versions = &class.spec.kubernetes_versions;
    if versions.is_empty() {
        return Vec::new();
    }
    let topologies = clusters.iter().filter_map(|cluster| Some((cluster, cluster.spec.topology.as_ref()?)));
    let missing = topologies.filter(|(_, topology)| !versions.contains(&topology.version));
    missing
        .map(|(cluster, topology)| {
            let why =
                format!("must contain {}, the version of Cluster {:?}", topology.version, name(cluster));
            field::forbidden("spec.kubernetesVersions", why)
        })
        .collect()
}

fn removed_workers(class: &ClusterClass, change: ClassChange<'_>) -> Vec<FieldError> {
    let none = WorkersClass::default();
    let new = class.spec.workers.as_ref().unwrap_or(&none);
    let old = change.old.spec.workers.as_ref().unwrap_or(&none);
    let mut errors = Vec::new();
    for cluster in change.clusters {
        let Some(workers) = workers_of(cluster) else { continue };
        let mut refuse = |at: &str, class: &str| {
            let why = format!("class {class:?} cannot be removed: Cluster {:?} uses it", name(cluster));
            errors.push(field::forbidden(at, why));
        };
        for used in workers.machine_deployments.iter().map(|one| &one.class) {
            let has =
                |workers: &WorkersClass| workers.machine_deployments.iter().any(|one| one.class == *used);
            if has(old) && !has(new) {
                refuse("spec.workers.machineDeployments", used);
            }
        }
        for used in workers.machine_pools.iter().map(|one| &one.class) {
            let has = |workers: &WorkersClass| workers.machine_pools.iter().any(|one| one.class == *used);
            if has(old) && !has(new) {
                refuse("spec.workers.machinePools", used);
            }
        }
    }
    errors
}

fn workers_of(cluster: &Cluster) -> Option<&WorkersTopology> {
    cluster.spec.topology.as_ref()?.workers.as_ref()
}

/// A cluster that asks for a health check, and leaves it to the class, must find one there.
fn removed_health_checks(class: &ClusterClass, change: ClassChange<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut refuse = |at: String, users: Vec<&str>| {
        if !users.is_empty() {
            let why = format!("cannot be removed: used by Clusters {}", users.join(", "));
            errors.push(field::forbidden(&at, why));
        }
    };
    let (old, new) = (&change.old.spec.control_plane, &class.spec.control_plane);
    if is_defined(&old.health_check) && !is_defined(&new.health_check) {
        let users = change.clusters.iter().filter(|cluster| {
            let topology =
                cluster.spec.topology.as_ref().and_then(|topology| topology.control_plane.as_ref());
            relies_on_class(topology.and_then(|topology| topology.health_check.as_ref()))
        });
        refuse("spec.controlPlane.healthCheck".to_string(), users.map(name).collect());
    }
    let deployments = |class: &ClusterClass| -> Vec<MachineDeploymentClass> {
        class.spec.workers.as_ref().map(|workers| workers.machine_deployments.clone()).unwrap_or_default()
    };
    let known = deployments(change.old);
    for new in deployments(class) {
        let Some(old) = known.iter().find(|old| old.class == new.class) else { continue };
        if !is_defined(&old.health_check) || is_defined(&new.health_check) {
            continue;
        }
        let users = change.clusters.iter().filter(|cluster| {
            let groups =
                workers_of(cluster).map(|workers| workers.machine_deployments.as_slice()).unwrap_or_default();
            groups.iter().any(|one| one.class == new.class && relies_on_class(one.health_check.as_ref()))
        });
        let at = field::entry("spec.workers.machineDeployments", &new.class);
        refuse(field::child(&at, "healthCheck"), users.map(name).collect());
    }
    errors
}

/// Whether a health check says something.
pub(super) fn is_defined(check: &Option<impl Serialize>) -> bool {
    object::some(check).is_some()
}

/// Whether a topology says what to check.
pub(super) fn says_what<R: Serialize>(check: &TopologyHealthCheck<R>) -> bool {
    is_defined(&check.checks) || is_defined(&check.remediation)
}

fn relies_on_class<R: Serialize>(check: Option<&TopologyHealthCheck<R>>) -> bool {
    check.is_some_and(|check| check.enabled == Some(true) && !says_what(check))
}
