//! The Node of a Machine: the fields that the Machine copies from it, and those that the Machine propagates to it.
//! Pure.

mod metadata;
mod taints;
#[cfg(test)]
mod tests;

use capstan_api::core::{Machine, MachineDeployment, MachineNodeReference, MachineSet};
use capstan_controller::{Error, Result};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};

use super::super::observe::{NodeReading, Observed};
use crate::external::flag;
use crate::node_sync::NodeSync;

/// Which revision of its MachineDeployment a MachineSet stands for, and which one is current.
const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";

/// The Node that a Machine refers to.
pub(in crate::machine) fn name(machine: &Machine) -> Option<&str> {
    machine.status.as_ref()?.node_ref.as_ref().map(|node| node.name.as_str())
}

/// Writes into the Machine which Node it became and what that says of itself. The reference stays when the Node goes.
pub(in crate::machine) fn refer(machine: &mut Machine, reading: &NodeReading) {
    let NodeReading::Found(node) = reading else { return };
    let status = machine.status.get_or_insert_default();
    status.node_ref.get_or_insert_with(|| MachineNodeReference { name: node.name_any() });
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    // Both types spell the same fields.
    status.node_info = info.and_then(|info| serde_json::from_value(serde_json::to_value(info).ok()?).ok());
}

/// What to send so that labels, annotations and taints of the Node are what its Machine and its owners say.
pub(in crate::machine) fn wanted(
    node: &Node,
    machine: &Machine,
    observed: &Observed,
    sync: &NodeSync,
) -> Result<Option<Value>> {
    let interruptible =
        observed.infrastructure.found().is_some_and(|object| flag(object, "/status/interruptible"));
    let outdated = is_outdated(observed.set.as_ref(), observed.deployment.as_ref())?;
    Ok(patch(node, machine, interruptible, outdated, sync))
}

/// What to send so that the Node is as it should be. Taints are replaced whole, so it goes with the resource version.
fn patch(
    node: &Node,
    machine: &Machine,
    interruptible: bool,
    outdated: bool,
    sync: &NodeSync,
) -> Option<Value> {
    let mut metadata = Map::new();
    let labels = metadata::labels(node, machine, interruptible, &sync.labels);
    let taints = taints::taints(node, machine, outdated);
    let annotations = metadata::annotations(node, machine, &labels, &taints, &sync.annotations);
    for (key, changes) in [("labels", labels.changes), ("annotations", annotations)] {
        if !changes.is_empty() {
            metadata.insert(key.to_owned(), json!(changes));
        }
    }
    let mut patch = Map::new();
    if let Some(taints) = taints.changed {
        patch.insert("spec".to_owned(), json!({ "taints": taints }));
    }
    if metadata.is_empty() && patch.is_empty() {
        return None;
    }
    metadata.insert("resourceVersion".to_owned(), json!(node.resource_version()));
    patch.insert("metadata".to_owned(), Value::Object(metadata));
    Some(Value::Object(patch))
}

/// Whether the MachineDeployment has moved on to another MachineSet.
fn is_outdated(set: Option<&MachineSet>, deployment: Option<&MachineDeployment>) -> Result<bool> {
    let (Some(set), Some(deployment)) = (set, deployment) else { return Ok(false) };
    let number = |text: Option<&String>, who: &str| match text {
        None => Ok(0_i64),
        Some(text) => {
            text.parse().map_err(|_| Error::user(format!("{who} annotation {REVISION}"), "is not a number"))
        }
    };
    let of_set = number(set.annotations().get(REVISION), "MachineSet")?;
    let of_deployment = number(deployment.annotations().get(REVISION), "MachineDeployment")?;
    Ok(of_set < of_deployment)
}
