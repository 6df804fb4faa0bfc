//! The control plane, the template of its machines, and their health check.

use super::cloned::{Cloned, name_of_ref, shim_owner};
use super::cluster::NAME;
use super::{ComputeError, Input, Names, health_check};
use crate::contract::{self, Contract, Timeout};
use crate::metadata;
use crate::names::{self, Suffixes};
use crate::object;
use capstan_api::meta::labels::CONTROL_PLANE;
use serde_json::{Value, json};

/// The template of the machines, if the class has one.
pub(super) fn machine_template(
    input: &Input<'_>,
    cluster: &Names<'_>,
    suffixes: &mut dyn Suffixes,
) -> Option<Value> {
    let template = input.blueprint.control_plane_machines?;
    let path = input.contract.of_machines("infrastructureRef");
    let current = input.current.control_plane.as_ref().and_then(|current| object::get(current, &path));
    let prefix = format!("{}-", cluster.name);
    let name = name_of_ref(current).unwrap_or_else(|| names::from_prefix(&prefix, suffixes));
    Some(Cloned::plain(name, Some(cluster.owner()), cluster).template(template))
}

/// The control plane with this version.
pub(super) fn object(
    input: &Input<'_>,
    cluster: &Names<'_>,
    machine_template: Option<&Value>,
    version: &str,
    suffixes: &mut dyn Suffixes,
) -> Result<Value, ComputeError> {
    let class = &input.blueprint.class.spec.control_plane;
    let topology = input.blueprint.topology.control_plane.clone().unwrap_or_default();
    let mut metadata = metadata::merged(topology.metadata.as_ref(), class.metadata.as_ref());
    metadata::own(&mut metadata.labels, cluster.name);

    let template = class.naming.as_ref().and_then(|naming| naming.template.as_deref()).unwrap_or(NAME);
    let name = match &input.cluster.spec.control_plane_ref {
        Some(reference) => reference.name.clone(),
        None => names::lasting_from_template(template, cluster.name, "control-plane", suffixes)
            .map_err(|why| ComputeError::Name { what: "control plane".to_string(), why })?,
    };
    let clone = Cloned {
        name,
        labels: metadata.labels.clone(),
        annotations: metadata.annotations.clone(),
        owner: shim_owner(input.current.control_plane.as_ref(), cluster),
        cluster,
    };
    let mut made = clone.object(input.blueprint.control_plane);

    let contract = input.contract;
    if let Some(template) = machine_template {
        let current = input.current.control_plane.as_ref();
        let path = contract.of_machines("infrastructureRef");
        let current = current.and_then(|current| object::get(current, &path));
        object::set(&mut made, &path, machine_reference(contract, template, current));
        for (path, wanted) in [
            (contract::MACHINE_LABELS, &metadata.labels),
            (contract::MACHINE_ANNOTATIONS, &metadata.annotations),
        ] {
            let merged = metadata::merge(wanted, &object::texts(&made, path));
            object::set_texts(&mut made, path, &merged);
        }
    }
    object::set_some(&mut made, contract::REPLICAS, topology.replicas.map(Value::from));
    let after = topology.rollout.as_ref().and_then(|rollout| rollout.after.as_ref());
    object::set_some(&mut made, contract::ROLLOUT_AFTER, after.map(|after| json!(after)));
    let gates = object::some(&topology.readiness_gates).or_else(|| object::some(&class.readiness_gates));
    object::set_some(&mut made, &contract.of_machines("readinessGates"), gates);
    let taints = object::some(&topology.taints).or_else(|| object::some(&class.taints));
    object::set_some(&mut made, &contract.of_machines("taints"), taints);

    let (wanted, otherwise) =
        (topology.deletion.unwrap_or_default(), class.deletion.clone().unwrap_or_default());
    let drain = wanted.node_drain_timeout_seconds.or(otherwise.node_drain_timeout_seconds);
    let detach = wanted.node_volume_detach_timeout_seconds.or(otherwise.node_volume_detach_timeout_seconds);
    let deletion = wanted.node_deletion_timeout_seconds.or(otherwise.node_deletion_timeout_seconds);
    contract.set_timeout(&mut made, Timeout::Drain, drain);
    contract.set_timeout(&mut made, Timeout::VolumeDetach, detach);
    contract.set_timeout(&mut made, Timeout::Deletion, deletion);
    object::set(&mut made, contract::VERSION, json!(version));
    Ok(made)
}

/// A reference to the template of the machines. An older provider may have moved its reference to a newer version.
fn machine_reference(contract: Contract, template: &Value, current: Option<&Value>) -> Value {
    if contract == Contract::V1Beta2 {
        return object::reference(template);
    }
    let (mut api_version, kind) = (object::api_version(template), object::kind(template));
    if let Some(current) = current {
        let known = object::api_version(current);
        if object::kind(current) == kind && object::group_of(known) == object::group_of(api_version) {
            api_version = known;
        }
    }
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "name": object::name(template),
        "namespace": object::text(template, &["metadata", "namespace"]),
    })
}

/// The health check of the machines, if the control plane has machines and a check is defined.
pub(super) fn health_check(input: &Input<'_>, cluster: &Names<'_>, control_plane: &Value) -> Option<Value> {
    input.blueprint.control_plane_machines?;
    let topology = input.blueprint.topology.control_plane.as_ref();
    let topology = topology.and_then(|topology| topology.health_check.as_ref());
    let class = input.blueprint.class.spec.control_plane.health_check.as_ref();
    let checked = health_check::chosen(topology, class)?;
    Some(checked.object(control_plane, &health_check::selector(CONTROL_PLANE, ""), cluster))
}
