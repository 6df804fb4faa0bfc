//! Reads the inputs of decisions about a Machine. Does not write.

use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_api::meta::labels;
use capstan_controller::cache::Cached;
use capstan_controller::error::Doing as _;
use capstan_controller::remote::Health;
use capstan_controller::{Error, Knowledge, Result, owners};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Resource, ResourceExt as _};
use std::sync::Arc;

use super::decide::provision;
use super::decide::update::UpdateProgress;
use crate::Core;
use crate::cluster::provisioned;
use crate::external::{self, Reading};
use crate::names::GROUP;
use crate::step::Steps;

/// The inputs of decisions about a Machine, except its Node, which is found by the provider ID of the infrastructure.
pub(super) struct Observed {
    pub(super) cluster: Cluster,
    pub(super) set: Option<MachineSet>,
    pub(super) deployment: Option<MachineDeployment>,
    pub(super) bootstrap: Reading,
    pub(super) infrastructure: Reading,
    pub(super) health: Health,
    /// Response of the hook about an update in progress, once it was called.
    pub(super) update: Option<UpdateProgress>,
}

/// Result of the search for the Machine's Node.
#[derive(Clone, Debug, Default)]
pub(super) enum NodeReading {
    /// The Machine has no provider ID yet.
    #[default]
    NotLooked,
    /// There is no connection to the workload cluster.
    Disconnected,
    /// The Node cannot be read; the log says why.
    Failed,
    /// The Node does not exist.
    Missing,
    /// The Node exists.
    Found(Arc<Node>),
}

/// The Cluster of the Machine. It is required.
pub(super) async fn cluster(core: &Core, machine: &Machine) -> Result<Cluster> {
    let namespace = machine.namespace().unwrap_or_default();
    let name = &machine.spec.cluster_name;
    optional(core, &namespace, name).await?.ok_or_else(|| {
        let field = format!("Machine {namespace}/{} spec.clusterName", machine.name_any());
        Error::user(field, format!("there is no Cluster {name}"))
    })
}

pub(super) async fn observe(
    core: &Core,
    machine: &Machine,
    cluster: Cluster,
    steps: &mut Steps,
) -> Result<Observed> {
    let namespace = machine.namespace().unwrap_or_default();
    let set: Option<MachineSet> = match owners::of_kind(&machine.metadata, "MachineSet", GROUP) {
        Some(owner) => optional(core, &namespace, &owner.name).await?,
        None => None,
    };
    let deployment_name = set.as_ref().and_then(|set| set.labels().get(labels::DEPLOYMENT_NAME).cloned());
    let deployment = match deployment_name {
        Some(name) => optional(core, &namespace, &name).await?,
        None => None,
    };
    let (bootstrap, read) =
        external::read(core, machine.spec.bootstrap.config_ref.as_ref(), &namespace).await;
    steps.check(read);
    let (infrastructure, read) =
        external::read(core, Some(&machine.spec.infrastructure_ref), &namespace).await;
    steps.check(read);
    let health = core.remotes.health(&namespace, &cluster.name_any());
    Ok(Observed { cluster, set, deployment, bootstrap, infrastructure, health, update: None })
}

/// Finds the Node with the provider ID of the machine.
pub(super) async fn node(
    core: &Core,
    machine: &Machine,
    observed: &Observed,
    steps: &mut Steps,
) -> NodeReading {
    let Some(id) = provision::provider_id(machine, &observed.infrastructure) else {
        return NodeReading::NotLooked;
    };
    if !provisioned(&observed.cluster) {
        return NodeReading::Disconnected;
    }
    let namespace = machine.namespace().unwrap_or_default();
    let nodes = match core.remotes.nodes(&namespace, &machine.spec.cluster_name).await {
        Ok(Knowledge::Known(nodes)) => nodes,
        Ok(Knowledge::Unknown(_)) => return NodeReading::Disconnected,
        Err(error) => {
            steps.check(Err(error));
            return NodeReading::Failed;
        }
    };
    match nodes.by_provider_id(&id) {
        Ok(Some(node)) => NodeReading::Found(node),
        Ok(None) => NodeReading::Missing,
        Err(ambiguous) => {
            let field = format!("Machine {namespace}/{} spec.providerID", machine.name_any());
            steps.check(Err(Error::user(field, ambiguous.to_string())));
            NodeReading::Failed
        }
    }
}

/// The control plane of a Machine's Cluster, which decides whether the Node of the Machine is deleted.
pub(super) struct ControlPlane {
    pub(super) object: Reading,
    /// Number of control plane Machines that are not being deleted.
    pub(super) machines: usize,
}

/// Reads the control plane from the cache.
pub(super) async fn control_plane(core: &Core, machine: &Machine, cluster: &Cluster) -> Result<ControlPlane> {
    let namespace = machine.namespace().unwrap_or_default();
    let (object, read) = external::read(core, cluster.spec.control_plane_ref.as_ref(), &namespace).await;
    read?;
    let machines = core.caches.of::<Machine>().of_cluster(&namespace, &machine.spec.cluster_name).await?;
    let of_control_plane =
        machines.iter().filter(|machine| machine.labels().contains_key(labels::CONTROL_PLANE));
    let alive = of_control_plane.filter(|machine| machine.metadata.deletion_timestamp.is_none());
    Ok(ControlPlane { object, machines: alive.count() })
}

/// Number of control plane Machines of the Cluster that are not being deleted, by a live read.
pub(super) async fn control_plane_machines_now(core: &Core, machine: &Machine) -> Result<usize> {
    let (namespace, name) = (machine.namespace().unwrap_or_default(), &machine.spec.cluster_name);
    let selector = format!("{}={name},{}", labels::CLUSTER_NAME, labels::CONTROL_PLANE);
    let machines = core.api::<Machine>(&namespace).list(&ListParams::default().labels(&selector)).await;
    let machines = machines.doing(|| format!("cannot list control plane Machines of Cluster {name}"))?;
    Ok(machines.iter().filter(|machine| machine.metadata.deletion_timestamp.is_none()).count())
}

async fn optional<K>(core: &Core, namespace: &str, name: &str) -> Result<Option<K>>
where
    K: Cached + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Ok(core.caches.of::<K>().get(namespace, name).await?.map(|found| found.as_ref().clone()))
}
