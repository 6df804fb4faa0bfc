//! Reads what still uses the templates of a MachineDeployment, live: they are deleted if nothing does. Reads only.

use capstan_api::core::{Cluster, MachineDeployment, MachineSet};
use capstan_api::meta::labels;
use capstan_controller::error::Doing as _;
use capstan_controller::{Result, pause};
use kube::api::ListParams;
use kube::{Resource, ResourceExt as _};

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

/// The MachineDeployment, if it exists.
pub(super) async fn machine_deployment(
    core: &Core,
    namespace: &str,
    name: &str,
) -> Result<Option<MachineDeployment>> {
    let found = core.api::<MachineDeployment>(namespace).get_opt(name).await;
    found.doing(|| format!("cannot read MachineDeployment {namespace}/{name}"))
}

/// The MachineSets of a MachineDeployment.
pub(super) async fn machine_sets(core: &Core, namespace: &str, deployment: &str) -> Result<Vec<MachineSet>> {
    let all = core.api::<MachineSet>(namespace).list(&ListParams::default()).await;
    let mut found = all.doing(|| format!("cannot list MachineSets in {namespace}"))?.items;
    found.retain(|set| set.labels().get(labels::DEPLOYMENT_NAME).is_some_and(|name| name == deployment));
    Ok(found)
}
