//! Owner references of a Machine, and of the objects that it refers to. Pure.

use capstan_api::core::{Cluster, Machine};
use capstan_api::meta::labels;
use capstan_controller::owners;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::DynamicObject;

use crate::names::GROUP;

/// Labels that name the kind of owner that created the Machine. That owner adopts the Machine, for example after a
/// restore.
const MADE_BY: [&str; 3] = [labels::SET_NAME, labels::POOL_NAME, labels::CONTROL_PLANE_NAME];

/// A Machine without another owner is owned by its Cluster. Every Machine has the label of its Cluster.
pub(in crate::machine) fn set_owner_and_label(machine: &mut Machine, cluster: &Cluster) {
    if stands_alone(machine)
        && let Some(reference) = owners::plain(cluster)
    {
        owners::ensure(&mut machine.metadata, &reference);
    }
    let name = machine.spec.cluster_name.clone();
    machine.labels_mut().insert(labels::CLUSTER_NAME.to_owned(), name);
}

fn stands_alone(machine: &Machine) -> bool {
    owners::controller_of(&machine.metadata).is_none()
        && owners::of_kind(&machine.metadata, "Cluster", GROUP).is_none()
        && !MADE_BY.iter().any(|label| machine.labels().contains_key(*label))
}

/// The desired owners of the bootstrap config or the infrastructure machine: the Machine as controller, which replaces
/// the object that created both before the Machine existed.
pub(in crate::machine) fn owners_with(
    machine: &Machine,
    cluster: &Cluster,
    object: &DynamicObject,
) -> Vec<OwnerReference> {
    let mut meta = object.metadata.clone();
    if let Some(owners) = &mut meta.owner_references {
        owners.retain(|owner| !is_creator(machine, cluster, owner));
    }
    if let Some(reference) = owners::controller(machine) {
        owners::ensure(&mut meta, &reference);
    }
    meta.owner_references.unwrap_or_default()
}

fn is_creator(machine: &Machine, cluster: &Cluster, owner: &OwnerReference) -> bool {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    let is_set = owner.kind == "MachineSet" && group == GROUP;
    let is_control_plane = is_control_plane_machine(machine)
        && cluster
            .spec
            .control_plane_ref
            .as_ref()
            .is_some_and(|reference| reference.kind == owner.kind && reference.api_group == group);
    is_set || is_control_plane
}

pub(in crate::machine) fn is_control_plane_machine(machine: &Machine) -> bool {
    machine.labels().contains_key(labels::CONTROL_PLANE)
}
