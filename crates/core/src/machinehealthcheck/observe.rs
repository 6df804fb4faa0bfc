//! Reads what a MachineHealthCheck judges. Reads only.

use capstan_api::conditions::is_true;
use capstan_api::core::{Cluster, Machine, MachineHealthCheck};
use capstan_controller::remote::Nodes;
use capstan_controller::{Knowledge, Result};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::core::SelectorExt as _;

use crate::Core;
use crate::machineset::selector;
use crate::names::cluster::types as cluster_types;

/// All that Machines are judged by.
pub(super) struct Observed {
    /// The Machines that are selected.
    pub(super) machines: Vec<Machine>,
    /// The Nodes of the workload cluster; `None` if there is no API server that could have any.
    pub(super) nodes: Option<Knowledge<Nodes>>,
}

pub(super) async fn observe(core: &Core, cluster: &Cluster, check: &MachineHealthCheck) -> Result<Observed> {
    let namespace = check.namespace().unwrap_or_default();
    let selector = selector(&check.spec.selector, "MachineHealthCheck", &check.name_any())?;
    let all = core.caches.of::<Machine>().of_cluster(&namespace, &check.spec.cluster_name).await?;
    let selected = all.iter().filter(|machine| selector.matches(machine.labels()));
    let machines = selected.map(|machine| machine.as_ref().clone()).collect();
    let nodes = match is_true(cluster, cluster_types::CONTROL_PLANE_INITIALIZED) {
        true => Some(core.remotes.nodes(&namespace, &check.spec.cluster_name).await?),
        false => None,
    };
    Ok(Observed { machines, nodes })
}

/// A Node as its API server has it now.
pub(super) async fn node_now(core: &Core, check: &MachineHealthCheck, node: &str) -> Knowledge<Option<Node>> {
    let namespace = check.namespace().unwrap_or_default();
    core.remotes.node_now(&namespace, &check.spec.cluster_name, node).await
}
