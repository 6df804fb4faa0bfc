//! Owners of the two objects that a MachinePool refers to. Pure.

use capstan_api::core::MachinePool;
use capstan_controller::{Error, Result, owners};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::DynamicObject;

use crate::names::GROUP;

/// The desired owners of an object: those that it has, and the MachinePool as controller.
///
/// # Errors
/// If another object controls it.
pub(in crate::machinepool) fn owners_with(
    pool: &MachinePool,
    object: &DynamicObject,
) -> Result<Vec<OwnerReference>> {
    if let Some(other) = other_controller(pool, object) {
        let kind = object.types.as_ref().map_or("object", |types| types.kind.as_str());
        let field = format!("MachinePool {} spec.template.spec", pool.name_any());
        let what = format!(
            "{kind} {} is controlled by {} {}: each MachinePool needs its own",
            object.name_any(),
            other.kind,
            other.name
        );
        return Err(Error::user(field, what));
    }
    let mut meta = object.metadata.clone();
    if let Some(reference) = owners::controller(pool) {
        owners::ensure(&mut meta, &reference);
    }
    Ok(meta.owner_references.unwrap_or_default())
}

/// The controller of an object, if that is not the MachinePool. Compared by name: the UID differs after a restore.
pub(in crate::machinepool) fn other_controller<'a>(
    pool: &MachinePool,
    object: &'a DynamicObject,
) -> Option<&'a OwnerReference> {
    let is_pool = |owner: &OwnerReference| {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        owner.kind == "MachinePool" && group == GROUP && owner.name == pool.name_any()
    };
    owners::controller_of(&object.metadata).filter(|owner| !is_pool(owner))
}
