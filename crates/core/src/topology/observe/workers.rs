//! MachineDeployments and MachinePools of a topology, with what they refer to.

use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineHealthCheck, MachinePool, Topology};
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_controller::{Error, Knowledge, Result};
use capstan_topology::metadata::{DEPLOYMENT_NAME, OWNED, POOL_NAME};
use capstan_topology::state::CurrentWorkers;
use capstan_topology::upgrade::{machine_deployment_is_upgrading, machine_pool_is_upgrading};
use kube::api::{Api, DynamicObject, ListParams, PartialObjectMeta};
use kube::core::{Selector, SelectorExt as _};
use kube::{Resource, ResourceExt as _};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Templates, health_check, owned_object, owned_template, value};
use crate::Core;

/// A MachineDeployment of a topology.
pub(in crate::topology) struct Deployment {
    pub(in crate::topology) object: Arc<MachineDeployment>,
    /// `None` if it was deleted, or the MachineDeployment is being deleted.
    pub(in crate::topology) bootstrap: Option<DynamicObject>,
    /// The same.
    pub(in crate::topology) infrastructure: Option<DynamicObject>,
    pub(in crate::topology) check: Option<Arc<MachineHealthCheck>>,
    is_upgrading: bool,
}

/// A MachinePool of a topology.
pub(in crate::topology) struct Pool {
    pub(in crate::topology) object: Arc<MachinePool>,
    pub(in crate::topology) bootstrap: Option<DynamicObject>,
    pub(in crate::topology) infrastructure: Option<DynamicObject>,
    is_upgrading: bool,
}

/// The MachineDeployments of a topology, by their name in it.
pub(super) async fn machine_deployments(
    core: &Core,
    cluster: &Cluster,
    templates: &Templates,
) -> Result<BTreeMap<String, Deployment>> {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let mut all = core.caches.of::<MachineDeployment>().of_cluster(&namespace, &name).await?;
    all.retain(|one| one.labels().contains_key(OWNED));
    let machines = match all.is_empty() {
        true => Vec::new(),
        false => core.caches.of::<Machine>().of_cluster(&namespace, &name).await?,
    };
    let mut found = BTreeMap::new();
    for object in all {
        let topology_name = topology_name(object.as_ref(), DEPLOYMENT_NAME)?;
        let class = class_of_deployment(cluster, &topology_name);
        let class = class.and_then(|class| templates.machine_deployments.get(class));
        let spec = &object.spec.template.spec;
        let is_deleting = object.metadata.deletion_timestamp.is_some();
        let of = format!("MachineDeployment {namespace}/{}", object.name_any());
        let bootstrap = match spec.bootstrap.config_ref.as_ref().filter(|_| !is_deleting) {
            Some(reference) => {
                let template = class.map(|class| &class.bootstrap);
                owned_template(core, &of, &namespace, reference, template).await?
            }
            None => None,
        };
        let infrastructure = match is_deleting {
            true => None,
            false => {
                let template = class.map(|class| &class.infrastructure);
                owned_template(core, &of, &namespace, &spec.infrastructure_ref, template).await?
            }
        };
        let check = health_check(core, &namespace, &object.name_any()).await?;
        let is_upgrading = is_upgrading(&object, &machines)?;
        let one = Deployment { object, bootstrap, infrastructure, check, is_upgrading };
        insert(&mut found, topology_name, one, "MachineDeployment")?;
    }
    Ok(found)
}

fn is_upgrading(deployment: &MachineDeployment, machines: &[Arc<Machine>]) -> Result<bool> {
    let of = || {
        let (namespace, name) = (deployment.namespace().unwrap_or_default(), deployment.name_any());
        format!("MachineDeployment {namespace}/{name}")
    };
    let selector = Selector::try_from(deployment.spec.selector.clone())
        .map_err(|problem| Error::user(format!("{} spec.selector", of()), problem.to_string()))?;
    let own = machines.iter().filter(|machine| selector.matches(machine.labels()));
    let own: Vec<Value> = own.map(|machine| value(machine.as_ref())).collect::<Result<_>>()?;
    machine_deployment_is_upgrading(&value(deployment)?, &own).map_err(|machine| {
        let doing = format!("cannot find out whether {} is upgrading", of());
        Error::transient(doing, format!("Machine {machine} has no spec.version"))
    })
}

/// The MachinePools of a topology, by their name in it.
pub(super) async fn machine_pools(
    core: &Core,
    cluster: &Cluster,
    templates: &Templates,
) -> Result<BTreeMap<String, Pool>> {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let mut all = core.caches.of::<MachinePool>().of_cluster(&namespace, &name).await?;
    all.retain(|one| one.labels().contains_key(OWNED));
    let mut found = BTreeMap::new();
    for object in all {
        let topology_name = topology_name(object.as_ref(), POOL_NAME)?;
        let class = class_of_pool(cluster, &topology_name);
        let class = class.and_then(|class| templates.machine_pools.get(class));
        let spec = &object.spec.template.spec;
        let of = format!("MachinePool {namespace}/{}", object.name_any());
        let read = async |reference: &ContractVersionedObjectReference, template: Option<&Value>| {
            owned_object(core, &of, &namespace, reference, template, false).await
        };
        let bootstrap = match &spec.bootstrap.config_ref {
            Some(reference) => read(reference, class.map(|class| &class.bootstrap)).await?,
            None => None,
        };
        let infrastructure = read(&spec.infrastructure_ref, class.map(|class| &class.infrastructure)).await?;
        let is_upgrading = is_pool_upgrading(core, cluster, &object).await?;
        let one = Pool { object, bootstrap, infrastructure, is_upgrading };
        insert(&mut found, topology_name, one, "MachinePool")?;
    }
    Ok(found)
}

/// Whether a Node of a MachinePool has another version. It must be known: another pool may be upgraded next.
async fn is_pool_upgrading(core: &Core, cluster: &Cluster, pool: &MachinePool) -> Result<bool> {
    let status = pool.status.as_ref();
    let names: Vec<&str> = status
        .into_iter()
        .flat_map(|status| &status.node_refs)
        .filter_map(|reference| reference.name.as_deref())
        .collect();
    if names.is_empty() {
        return Ok(false);
    }
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    match core.remotes.nodes(&namespace, &name).await?.map(|nodes| nodes.all()) {
        Knowledge::Known(nodes) => {
            let own = nodes.iter().filter(|node| names.contains(&node.name_any().as_str()));
            let kubelets: Vec<&str> = own
                .filter_map(|node| Some(node.status.as_ref()?.node_info.as_ref()?.kubelet_version.as_str()))
                .collect();
            Ok(machine_pool_is_upgrading(&value(pool)?, kubelets))
        }
        Knowledge::Unknown(why) => {
            let doing = format!("failed to check if MachinePool {} is upgrading", pool.name_any());
            Err(Error::transient(doing, why.to_string()))
        }
    }
}

/// The name of an object in the topology.
fn topology_name<K: Resource<DynamicType = ()>>(object: &K, label: &str) -> Result<String> {
    let name = object.labels().get(label).filter(|name| !name.is_empty()).cloned();
    name.ok_or_else(|| {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let field = format!("{} {namespace}/{name} metadata.labels", K::kind(&()));
        Error::user(
            field,
            format!("lacks {label}, the name in the topology; add it or remove the label {OWNED}"),
        )
    })
}

fn insert<T>(found: &mut BTreeMap<String, T>, name: String, one: T, kind: &str) -> Result<()> {
    if found.contains_key(&name) {
        let what = format!("is the name in the topology of two {kind}s; delete one of them");
        return Err(Error::user(format!("{kind} topology {name:?}"), what));
    }
    found.insert(name, one);
    Ok(())
}

fn class_of_deployment<'a>(cluster: &'a Cluster, name: &str) -> Option<&'a str> {
    let workers = cluster.spec.topology.as_ref()?.workers.as_ref()?;
    workers.machine_deployments.iter().find(|one| one.name == name).map(|one| one.class.as_str())
}

fn class_of_pool<'a>(cluster: &'a Cluster, name: &str) -> Option<&'a str> {
    let topology: &Topology = cluster.spec.topology.as_ref()?;
    let workers = topology.workers.as_ref()?;
    workers.machine_pools.iter().find(|one| one.name == name).map(|one| one.class.as_str())
}

/// MachineDeployments as the computation wants them.
pub(super) fn current(all: &BTreeMap<String, Deployment>) -> Result<BTreeMap<String, CurrentWorkers>> {
    let one = |one: &Deployment| -> Result<CurrentWorkers> {
        workers(value(one.object.as_ref())?, &one.bootstrap, &one.infrastructure, one.is_upgrading)
    };
    all.iter().map(|(name, found)| Ok((name.clone(), one(found)?))).collect()
}

/// MachinePools as the computation wants them.
pub(super) fn current_pools(all: &BTreeMap<String, Pool>) -> Result<BTreeMap<String, CurrentWorkers>> {
    let one = |one: &Pool| -> Result<CurrentWorkers> {
        workers(value(one.object.as_ref())?, &one.bootstrap, &one.infrastructure, one.is_upgrading)
    };
    all.iter().map(|(name, found)| Ok((name.clone(), one(found)?))).collect()
}

fn workers(
    object: Value,
    bootstrap: &Option<DynamicObject>,
    infrastructure: &Option<DynamicObject>,
    is_upgrading: bool,
) -> Result<CurrentWorkers> {
    Ok(CurrentWorkers {
        object,
        bootstrap: bootstrap.as_ref().map(value).transpose()?,
        infrastructure: infrastructure.as_ref().map(value).transpose()?,
        is_upgrading,
    })
}

/// The names in the topology of all objects of a kind, by a live read: before one is created.
pub(in crate::topology) async fn topology_names<K>(
    api: &Api<K>,
    cluster: &str,
    label: &str,
) -> Result<BTreeSet<String>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    use capstan_controller::error::Doing as _;
    let of_cluster = format!("{}={cluster},{OWNED}=", capstan_api::meta::labels::CLUSTER_NAME);
    let listed = api.list_metadata(&ListParams::default().labels(&of_cluster)).await;
    let listed = listed.doing(|| format!("cannot list {} of Cluster {cluster}", K::plural(&())))?;
    let names = listed.items.iter().filter_map(|object: &PartialObjectMeta<K>| object.labels().get(label));
    Ok(names.cloned().collect())
}
