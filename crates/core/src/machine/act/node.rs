//! Writes the metadata and taints of a Machine to its Node.

use capstan_api::core::Machine;
use capstan_controller::Result;
use capstan_controller::error::Doing as _;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};

use super::super::decide::node::wanted;
use super::super::observe::{NodeReading, Observed};
use crate::Core;

/// Writes labels, annotations and taints of the Node if they differ from the desired ones.
pub(in crate::machine) async fn write(
    core: &Core,
    machine: &Machine,
    observed: &Observed,
    reading: &NodeReading,
) -> Result<()> {
    let NodeReading::Found(node) = reading else { return Ok(()) };
    let Some(patch) = wanted(node, machine, observed, &core.node_sync)? else { return Ok(()) };
    let namespace = machine.namespace().unwrap_or_default();
    let Some(client) = core.remotes.client(&namespace, &machine.spec.cluster_name).await? else {
        return Ok(());
    };
    let (nodes, name) = (Api::<Node>::all(client), node.name_any());
    nodes
        .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .doing(|| format!("cannot write Node {name}"))?;
    Ok(())
}
