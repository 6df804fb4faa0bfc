//! What a reconcile of a Cluster reads. No writes.

use capstan_api::core::{Cluster, Machine, MachineDeployment, MachinePool, MachineSet};
use capstan_api::meta::labels;
use capstan_controller::cache::Cached;
use capstan_controller::error::Doing as _;
use capstan_controller::remote::Health;
use capstan_controller::{Result, owners};
use k8s_openapi::NamespaceResourceScope;
use kube::api::ListParams;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

use crate::Core;
use crate::external::{self, Reading};
use crate::names::GROUP;
use crate::step::Steps;

/// All that decisions about a Cluster are made from.
#[derive(Default)]
pub(super) struct Observed {
    pub(super) infrastructure: Reading,
    pub(super) control_plane: Reading,
    /// None if they could not be listed.
    pub(super) descendants: Option<Descendants>,
    pub(super) health: Health,
}

/// Everything that belongs to a Cluster, by the label.
#[derive(Default)]
pub(super) struct Descendants {
    pub(super) pools: Vec<MachinePool>,
    pub(super) deployments: Vec<MachineDeployment>,
    pub(super) sets: Vec<MachineSet>,
    pub(super) control_plane_machines: Vec<Machine>,
    pub(super) workers: Vec<Machine>,
}

impl Descendants {
    fn of(machines: Vec<Machine>) -> Self {
        let (control_plane_machines, workers) =
            machines.into_iter().partition(|machine| machine.labels().contains_key(labels::CONTROL_PLANE));
        Self { control_plane_machines, workers, ..Self::default() }
    }

    /// Workers whose conditions count: Machines of pools do not report them all.
    pub(super) fn reporting_workers(&self) -> impl Iterator<Item = &Machine> + Clone {
        self.workers.iter().filter(|machine| !machine.labels().contains_key(labels::POOL_NAME))
    }
}

/// Whether the Cluster itself, not something in between, owns the object.
pub(super) fn is_direct(cluster: &Cluster, object: &impl Resource<DynamicType = ()>) -> bool {
    let owner = owners::of_kind(object.meta(), "Cluster", GROUP);
    owner.is_some_and(|owner| Some(&owner.name) == cluster.meta().name.as_ref())
}

pub(super) async fn observe(core: &Core, cluster: &Cluster, steps: &mut Steps) -> Observed {
    let namespace = cluster.namespace().unwrap_or_default();
    let name = cluster.name_any();
    let (infrastructure, read) =
        external::read(core, cluster.spec.infrastructure_ref.as_ref(), &namespace).await;
    steps.check(read);
    let (control_plane, read) =
        external::read(core, cluster.spec.control_plane_ref.as_ref(), &namespace).await;
    steps.check(read);
    let descendants = steps.take(descendants(core, &namespace, &name).await);
    Observed { infrastructure, control_plane, descendants, health: core.remotes.health(&namespace, &name) }
}

/// What belongs to the Cluster, from the cache.
async fn descendants(core: &Core, namespace: &str, name: &str) -> Result<Descendants> {
    let machines = remembered(core, namespace, name).await?;
    Ok(Descendants {
        deployments: remembered(core, namespace, name).await?,
        sets: remembered(core, namespace, name).await?,
        pools: remembered(core, namespace, name).await?,
        ..Descendants::of(machines)
    })
}

/// What belongs to the Cluster, by a live read: before anything is deleted with it, nothing must be missed that has just
/// come.
pub(super) async fn descendants_now(core: &Core, cluster: &Cluster) -> Result<Descendants> {
    let (namespace, name) = (&cluster.namespace().unwrap_or_default(), &cluster.name_any());
    // Machines first: what makes one after that is in the other lists.
    let machines = list(core, namespace, name).await?;
    Ok(Descendants {
        deployments: list(core, namespace, name).await?,
        sets: list(core, namespace, name).await?,
        pools: list(core, namespace, name).await?,
        ..Descendants::of(machines)
    })
}

/// Objects of a Cluster as they are in memory.
async fn remembered<K>(core: &Core, namespace: &str, cluster: &str) -> Result<Vec<K>>
where
    K: Cached + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let found = core.caches.of::<K>().of_cluster(namespace, cluster).await?;
    Ok(found.iter().map(|object| object.as_ref().clone()).collect())
}

async fn list<K>(core: &Core, namespace: &str, cluster: &str) -> Result<Vec<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let of_cluster = ListParams::default().labels(&format!("{}={cluster}", labels::CLUSTER_NAME));
    let found = core.api::<K>(namespace).list(&of_cluster).await;
    Ok(found.doing(|| format!("cannot list {} of Cluster {namespace}/{cluster}", K::plural(&())))?.items)
}

impl Observed {
    /// None if they could not be listed.
    pub(super) fn control_plane_machines(&self) -> Option<Vec<&Machine>> {
        Some(self.descendants.as_ref()?.control_plane_machines.iter().collect())
    }

    /// None if they could not be listed.
    pub(super) fn workers(&self) -> Option<Vec<&Machine>> {
        Some(self.descendants.as_ref()?.reporting_workers().collect())
    }
}
