//! Reads what still uses templates, live: those that nothing uses are deleted. Reads only.

use capstan_api::core::{Cluster, MachineDeployment, MachineSet};
use capstan_controller::error::Doing as _;
use capstan_controller::{Result, pause};
use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

use crate::Core;

/// Whether an object or its Cluster is paused. A Cluster that does not exist pauses nothing.
pub(super) async fn is_paused<K>(core: &Core, object: &K, cluster: &str) -> Result<bool>
where
    K: Resource<DynamicType = ()>,
{
    let namespace = object.meta().namespace.clone().unwrap_or_default();
    let cluster = core.caches.of::<Cluster>().get(&namespace, cluster).await?;
    Ok(pause::reason(cluster.as_deref(), &K::kind(&()), object.meta()).is_some())
}

/// The MachineDeployments and MachineSets of a Cluster. MachineDeployments first: a MachineSet that is made after that has
/// templates that its MachineDeployment refers to.
pub(super) async fn users(
    core: &Core,
    namespace: &str,
    cluster: &str,
) -> Result<(Vec<MachineDeployment>, Vec<MachineSet>)> {
    let mut deployments: Vec<MachineDeployment> = list(core, namespace).await?;
    deployments.retain(|one| one.spec.cluster_name == cluster);
    let mut sets: Vec<MachineSet> = list(core, namespace).await?;
    sets.retain(|one| one.spec.cluster_name == cluster);
    Ok((deployments, sets))
}

async fn list<K>(core: &Core, namespace: &str) -> Result<Vec<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let found = core.api::<K>(namespace).list(&ListParams::default()).await;
    Ok(found.doing(|| format!("cannot list {} in {namespace}", K::plural(&())))?.items)
}
