//! Whether a cluster can go from one class, or one object, to another: kinds and groups of its objects must stay.

use crate::field;
use crate::object;
use capstan_api::core::{ClusterClass, ClusterClassTemplateReference};
use capstan_apiserver_schema::FieldError;
use serde_json::Value;

/// Errors of a change from one class to another, or of a class. Bootstrap templates may change their kind, because
/// machines are replaced anyway; classes of workers may come and go.
pub fn classes(current: &ClusterClass, desired: &ClusterClass) -> Vec<FieldError> {
    let (old, new) = (&current.spec, &desired.spec);
    let mut errors = references(
        &old.infrastructure.template_ref,
        &new.infrastructure.template_ref,
        "spec.infrastructure.templateRef",
    );
    errors.extend(references(
        &old.control_plane.template_ref,
        &new.control_plane.template_ref,
        "spec.controlPlane.templateRef",
    ));
    let at = "spec.controlPlane.machineInfrastructure";
    match (&old.control_plane.machine_infrastructure, &new.control_plane.machine_infrastructure) {
        (Some(old), Some(new)) => {
            errors.extend(references(&old.template_ref, &new.template_ref, &field::child(at, "templateRef")));
        }
        (None, None) => {}
        (Some(_), None) => {
            errors.push(field::forbidden(at, "cannot be removed: clusters have control plane machines"));
        }
        (None, Some(_)) => {
            errors.push(field::forbidden(at, "cannot be added: clusters have no control plane machines"));
        }
    }
    let none = capstan_api::core::WorkersClass::default();
    let (old, new) = (old.workers.as_ref().unwrap_or(&none), new.workers.as_ref().unwrap_or(&none));
    for (i, class) in new.machine_deployments.iter().enumerate() {
        if let Some(known) = old.machine_deployments.iter().find(|known| known.class == class.class) {
            let at = format!("spec.workers.machineDeployments[{i}].infrastructure.templateRef");
            errors.extend(references(
                &known.infrastructure.template_ref,
                &class.infrastructure.template_ref,
                &at,
            ));
        }
    }
    for (i, class) in new.machine_pools.iter().enumerate() {
        if let Some(known) = old.machine_pools.iter().find(|known| known.class == class.class) {
            let at = format!("spec.workers.machinePools[{i}].infrastructure.templateRef");
            errors.extend(references(
                &known.infrastructure.template_ref,
                &class.infrastructure.template_ref,
                &at,
            ));
        }
    }
    errors
}

fn references(
    old: &ClusterClassTemplateReference,
    new: &ClusterClassTemplateReference,
    at: &str,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (group, wanted) = (object::group_of(&old.api_version), object::group_of(&new.api_version));
    if group != wanted {
        let why = format!(
            "the group cannot change from {group:?} to {wanted:?}: objects of clusters cannot follow"
        );
        errors.push(field::forbidden(&field::child(at, "apiVersion"), why));
    }
    if old.kind != new.kind {
        let why = format!(
            "the kind cannot change from {:?} to {:?}: objects of clusters cannot follow",
            old.kind, new.kind
        );
        errors.push(field::forbidden(&field::child(at, "kind"), why));
    }
    errors
}

/// Errors of replacing an object by another: group, kind and namespace must stay.
pub fn objects(current: &Value, desired: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut must_stay = |at: &str, old: &str, new: &str| {
        if old != new {
            let (kind, name) = (object::kind(current), object::name(current));
            let why = format!("{kind} {name:?} cannot change it from {old:?} to {new:?}");
            errors.push(field::forbidden(at, why));
        }
    };
    let group = |object| object::group_of(object::api_version(object));
    must_stay("apiVersion", group(current), group(desired));
    must_stay("kind", object::kind(current), object::kind(desired));
    let namespace = |object| object::text(object, &["metadata", "namespace"]);
    must_stay("metadata.namespace", namespace(current), namespace(desired));
    errors
}

/// Errors of a change of an object that clusters cannot replace: its name must stay as well.
pub fn same_object(current: &Value, desired: &Value) -> Vec<FieldError> {
    let mut errors = objects(current, desired);
    let (old, new) = (object::name(current), object::name(desired));
    if old != new {
        let why = format!("{} {old:?} cannot be replaced by {new:?}", object::kind(current));
        errors.push(field::forbidden("metadata.name", why));
    }
    errors
}
