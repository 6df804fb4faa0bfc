//! The two hand-offs of a Cluster: the results of its infrastructure and its control plane are written into the
//! Cluster, where other controllers read them. Pure.
//!
//! The flags of `status.initialization` are never reset.

use capstan_api::core::{Cluster, ClusterInitializationStatus};
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_controller::{Error, Next, Result, owners};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use std::time::Duration;

use crate::external::{self, Reading};

/// Requeue while an object does not exist: no event of it can trigger the Cluster that does not own it yet.
const UNTIL_IT_EXISTS: Duration = Duration::from_secs(5);

/// The desired owners of an infrastructure or control plane object: the Cluster too, as controller only if a topology
/// created the object, because otherwise another object may be its controller.
pub(in crate::cluster) fn owners_with(cluster: &Cluster, object: &DynamicObject) -> Vec<OwnerReference> {
    let mut meta = object.metadata.clone();
    let reference = match cluster.spec.topology.is_some() {
        true => owners::controller(cluster),
        false => owners::plain(cluster),
    };
    if let Some(reference) = reference {
        owners::ensure(&mut meta, &reference);
    }
    meta.owner_references.unwrap_or_default()
}

pub(in crate::cluster) fn infrastructure(cluster: &mut Cluster, reading: &Reading) -> Result<Next> {
    let object = match (reading, &cluster.spec.infrastructure_ref) {
        (Reading::Found(object), _) => object,
        // Nothing to wait for; a topology fills the reference in later.
        (Reading::Unreferenced, _) => {
            if !is_deleting(cluster) && cluster.spec.topology.is_none() {
                initialization(cluster).infrastructure_provisioned = Some(true);
            }
            return Ok(Next::Changed);
        }
        (Reading::Missing, Some(reference)) => {
            let done = provisioned(cluster);
            return missing(cluster, reference, "spec.infrastructureRef", done, "provisioned");
        }
        _ => return Ok(Next::Changed),
    };
    let done = external::flag(object, "/status/initialization/provisioned") || provisioned(cluster);
    if external::is_deleting(object) || !done {
        return Ok(Next::Changed);
    }
    take_endpoint(cluster, object);
    let domains = external::field(object, "/status/failureDomains").unwrap_or_default();
    cluster.status.get_or_insert_default().failure_domains = domains;
    initialization(cluster).infrastructure_provisioned = Some(true);
    Ok(Next::Changed)
}

pub(in crate::cluster) fn control_plane(cluster: &mut Cluster, reading: &Reading) -> Result<Next> {
    let object = match (reading, &cluster.spec.control_plane_ref) {
        (Reading::Found(object), _) => object,
        (Reading::Missing, Some(reference)) => {
            let done = initialized(cluster);
            return missing(cluster, reference, "spec.controlPlaneRef", done, "initialized");
        }
        _ => return Ok(Next::Changed),
    };
    let done =
        external::flag(object, "/status/initialization/controlPlaneInitialized") || initialized(cluster);
    if external::is_deleting(object) || !done {
        return Ok(Next::Changed);
    }
    take_endpoint(cluster, object);
    initialization(cluster).control_plane_initialized = Some(true);
    Ok(Next::Changed)
}

fn missing(
    cluster: &Cluster,
    reference: &ContractVersionedObjectReference,
    field: &str,
    done: bool,
    how: &str,
) -> Result<Next> {
    if is_deleting(cluster) {
        return Ok(Next::Changed);
    }
    if done {
        let field = format!("Cluster {} {field}", cluster.name_any());
        return Err(Error::user(field, format!("{} has been deleted after being {how}", reference.kind)));
    }
    Ok(Next::After(UNTIL_IT_EXISTS))
}

/// An endpoint in the spec of the Cluster is kept: users may have set it, and other controllers rely on it.
fn take_endpoint(cluster: &mut Cluster, object: &DynamicObject) {
    if cluster.spec.control_plane_endpoint.as_ref().is_none_or(|endpoint| !endpoint.is_valid()) {
        cluster.spec.control_plane_endpoint = external::endpoint(object);
    }
}

fn initialization(cluster: &mut Cluster) -> &mut ClusterInitializationStatus {
    cluster.status.get_or_insert_default().initialization.get_or_insert_default()
}

pub(in crate::cluster) fn is_deleting(cluster: &Cluster) -> bool {
    cluster.metadata.deletion_timestamp.is_some()
}

/// Whether the infrastructure was ever provisioned.
pub fn provisioned(cluster: &Cluster) -> bool {
    flags(cluster).and_then(|flags| flags.infrastructure_provisioned).unwrap_or_default()
}

/// Whether the control plane has ever responded.
pub fn initialized(cluster: &Cluster) -> bool {
    flags(cluster).and_then(|flags| flags.control_plane_initialized).unwrap_or_default()
}

fn flags(cluster: &Cluster) -> Option<&ClusterInitializationStatus> {
    cluster.status.as_ref()?.initialization.as_ref()
}
