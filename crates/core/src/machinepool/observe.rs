//! Reads what decisions about a MachinePool are made from. Reads only.

use capstan_api::core::{Cluster, Machine, MachinePool};
use capstan_controller::{Error, Knowledge, Result};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use std::sync::Arc;

use super::decide::{machines, nodes, provision};
use crate::Core;
use crate::cluster::provisioned;
use crate::external::{self, Reading};
use crate::step::Steps;

/// All that decisions about a MachinePool are made from.
pub(super) struct Observed {
    pub(super) cluster: Cluster,
    pub(super) bootstrap: Reading,
    pub(super) infrastructure: Reading,
    /// The kind of the pool's infrastructure machines, if its provider makes any.
    pub(super) machine_kind: Option<String>,
    pub(super) infrastructure_machines: Knowledge<Vec<Arc<DynamicObject>>>,
    pub(super) machines: Knowledge<Vec<Machine>>,
    /// All Nodes of the workload cluster.
    pub(super) nodes: Knowledge<Vec<Arc<Node>>>,
    /// The Nodes of the pool, once they were looked for.
    pub(super) matched: Option<nodes::Matched>,
}

impl Observed {
    /// Whether Machines stand for the machines of the pool, as far as is known.
    pub(super) fn has_machines(&self) -> bool {
        self.machine_kind.is_some() || self.machines.is_known_and(|machines| !machines.is_empty())
    }
}

/// The Cluster of the MachinePool. It is required.
pub(super) async fn cluster(core: &Core, pool: &MachinePool) -> Result<Cluster> {
    let namespace = pool.namespace().unwrap_or_default();
    let name = &pool.spec.cluster_name;
    let found = core.caches.of::<Cluster>().get(&namespace, name).await?;
    found.map(Arc::unwrap_or_clone).ok_or_else(|| {
        let field = format!("MachinePool {namespace}/{} spec.clusterName", pool.name_any());
        Error::user(field, format!("there is no Cluster {name}"))
    })
}

pub(super) async fn observe(
    core: &Core,
    pool: &MachinePool,
    cluster: Cluster,
    steps: &mut Steps,
) -> Observed {
    let namespace = pool.namespace().unwrap_or_default();
    let spec = &pool.spec.template.spec;
    let (bootstrap, read) = external::read(core, spec.bootstrap.config_ref.as_ref(), &namespace).await;
    steps.check(read);
    let (infrastructure, read) = external::read(core, Some(&spec.infrastructure_ref), &namespace).await;
    steps.check(read);
    let machine_kind = provision::machine_kind(&infrastructure);
    let infrastructure_machines = match &machine_kind {
        Some(kind) => known(infrastructure_machines(core, pool, kind).await, steps),
        None => Knowledge::unknown("the infrastructure pool names no kind of machines"),
    };
    let machines = known(machines(core, pool).await, steps);
    let nodes = nodes(core, &cluster, steps).await;
    Observed {
        cluster,
        bootstrap,
        infrastructure,
        machine_kind,
        infrastructure_machines,
        machines,
        nodes,
        matched: None,
    }
}

/// What could not be read is unknown.
fn known<T>(read: Result<T>, steps: &mut Steps) -> Knowledge<T> {
    match steps.take(read) {
        Some(value) => Knowledge::Known(value),
        None => Knowledge::unknown("it could not be read"),
    }
}

/// The infrastructure machines of the pool, which its provider makes and deletes.
async fn infrastructure_machines(
    core: &Core,
    pool: &MachinePool,
    kind: &str,
) -> Result<Vec<Arc<DynamicObject>>> {
    let namespace = pool.namespace().unwrap_or_default();
    let group = &pool.spec.template.spec.infrastructure_ref.api_group;
    let mut found = core.externals.list(group, kind, &namespace).await?;
    found.retain(|object| machines::is_labelled(pool, object.labels()));
    found.sort_by_key(|object| object.name_any());
    Ok(found)
}

/// The Machines of the pool, from the cache.
async fn machines(core: &Core, pool: &MachinePool) -> Result<Vec<Machine>> {
    let namespace = pool.namespace().unwrap_or_default();
    let all = core.caches.of::<Machine>().of_cluster(&namespace, &pool.spec.cluster_name).await?;
    let ours = all.iter().filter(|machine| machines::belongs(pool, machine));
    Ok(ours.map(|machine| machine.as_ref().clone()).collect())
}

async fn nodes(core: &Core, cluster: &Cluster, steps: &mut Steps) -> Knowledge<Vec<Arc<Node>>> {
    if !provisioned(cluster) {
        return Knowledge::unknown("the infrastructure of the Cluster is not provisioned yet");
    }
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    match core.remotes.nodes(&namespace, &name).await {
        Ok(nodes) => nodes.map(|nodes| nodes.all()),
        Err(error) => {
            steps.check(Err(error));
            Knowledge::unknown("the workload cluster cannot be read")
        }
    }
}
