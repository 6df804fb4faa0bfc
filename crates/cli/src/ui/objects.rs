//! The objects of pages, kept up to date by watches, and the kinds that could not be watched.

use anyhow::{Context as _, Result};
use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_api::infrastructure::{Host, HostCluster, HostMachine};
use capstan_controller::Scope;
use capstan_controller::cache::{Cache, Caches};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::describe::Snapshot;

/// A kind that can be cached.
pub(super) trait Kept:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Kept for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// Cached objects of one kind; none if the kind cannot be watched.
pub(super) struct WatchedKind<K>(Option<Cache<K>>);

/// All kinds.
pub(super) struct Objects {
    pub(super) clusters: WatchedKind<Cluster>,
    pub(super) machines: WatchedKind<Machine>,
    pub(super) deployments: WatchedKind<MachineDeployment>,
    pub(super) machine_sets: WatchedKind<MachineSet>,
    pub(super) hosts: WatchedKind<Host>,
    host_clusters: WatchedKind<HostCluster>,
    pub(super) host_machines: WatchedKind<HostMachine>,
    configs: WatchedKind<CapstanConfig>,
    control_planes: WatchedKind<CapstanControlPlane>,
    reports: WatchedKind<MachineReport>,
    /// Kinds that cannot be watched, with the reason.
    pub(super) notices: Vec<String>,
    changes: watch::Receiver<u64>,
    counting: AbortHandle,
}

impl Drop for Objects {
    fn drop(&mut self) {
        self.counting.abort();
    }
}

impl Objects {
    /// Watches all kinds in the scope that the server has and the user may read.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub(super) async fn watch(client: &Client, scope: Scope) -> Result<Self> {
        let mut opening = Opening {
            caches: Caches::new(client.clone()).within(scope.clone()),
            scope,
            notices: Vec::new(),
            not_served: Vec::new(),
            keys: Vec::new(),
        };
        let (clusters, machines) = (opening.kind().await?, opening.kind().await?);
        let (deployments, machine_sets) = (opening.kind().await?, opening.kind().await?);
        let (hosts, host_clusters) = (opening.kind().await?, opening.kind().await?);
        let (host_machines, configs) = (opening.kind().await?, opening.kind().await?);
        let (control_planes, reports) = (opening.kind().await?, opening.kind().await?);
        if !opening.not_served.is_empty() {
            opening.notices.push(format!(
                "Not served by this management plane: {}. Start this command again after you have installed them.",
                opening.not_served.join(", ")
            ));
        }
        let (sender, changes) = watch::channel(0);
        let mut keys = stream::select_all(opening.keys);
        let counting = tokio::spawn(async move {
            while keys.next().await.is_some() {
                sender.send_modify(|number| *number += 1);
            }
        });
        Ok(Self {
            clusters,
            machines,
            deployments,
            machine_sets,
            hosts,
            host_clusters,
            host_machines,
            configs,
            control_planes,
            reports,
            notices: opening.notices,
            changes,
            counting: counting.abort_handle(),
        })
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        let mut changes = self.changes.clone();
        changes.mark_unchanged();
        changes
    }

    /// A cluster with its objects, as far as they are cached: objects of other providers are not.
    pub(super) async fn snapshot(&self, cluster: &Cluster) -> Result<Snapshot> {
        let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let machines = self.machines.of_cluster(namespace, name).await?;
        let mut reports = Vec::new();
        for machine in &machines {
            let machine = machine.metadata.name.as_deref().unwrap_or_default();
            reports.extend(self.reports.get(namespace, machine).await?);
        }
        let spec = &cluster.spec;
        let infrastructure = match &spec.infrastructure_ref {
            Some(reference) => self.host_clusters.get(namespace, &reference.name).await?,
            None => None,
        };
        let control_plane = match &spec.control_plane_ref {
            Some(reference) => self.control_planes.get(namespace, &reference.name).await?,
            None => None,
        };
        Ok(Snapshot {
            cluster: value(cluster),
            infrastructure: infrastructure.as_deref().map(value),
            control_plane: control_plane.as_deref().map(value),
            deployments: values(&self.deployments.of_cluster(namespace, name).await?),
            machine_sets: values(&self.machine_sets.of_cluster(namespace, name).await?),
            machine_pools: Vec::new(),
            machines: values(&machines),
            infrastructure_machines: values(&self.host_machines.of_cluster(namespace, name).await?),
            bootstrap_configs: values(&self.configs.of_cluster(namespace, name).await?),
            reports: values(&reports),
            resource_sets: Vec::new(),
        })
    }
}

struct Opening {
    caches: Caches,
    scope: Scope,
    notices: Vec<String>,
    not_served: Vec<String>,
    keys: Vec<BoxStream<'static, ()>>,
}

impl Opening {
    /// Watches a kind, if one list of it succeeds: a cache would wait for one that is forbidden.
    async fn kind<K: Kept>(&mut self) -> Result<WatchedKind<K>> {
        let plural = K::plural(&());
        let one = ListParams::default().limit(1);
        let api: Api<K> = self.scope.api(self.caches.client());
        match api.list(&one).await {
            Ok(_) => {
                let cache = self.caches.of::<K>();
                self.keys.push(cache.keys().map(|_| ()).boxed());
                return Ok(WatchedKind(Some(cache)));
            }
            Err(kube::Error::Api(status)) if status.code == 404 => self.not_served.push(plural.into_owned()),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                self.notices.push(format!("{plural} are not shown: {}", status.message));
            }
            Err(error) => return Err(error).context("cannot reach the management plane"),
        }
        Ok(WatchedKind(None))
    }
}

impl<K: Kept> WatchedKind<K> {
    pub(super) async fn all(&self) -> Result<Vec<Arc<K>>> {
        match &self.0 {
            Some(cache) => Ok(cache.all().await?),
            None => Ok(Vec::new()),
        }
    }

    pub(super) async fn get(&self, namespace: &str, name: &str) -> Result<Option<Arc<K>>> {
        match &self.0 {
            Some(cache) => Ok(cache.peek(namespace, name).await?),
            None => Ok(None),
        }
    }

    pub(super) async fn of_cluster(&self, namespace: &str, cluster: &str) -> Result<Vec<Arc<K>>> {
        match &self.0 {
            Some(cache) => Ok(cache.of_cluster(namespace, cluster).await?),
            None => Ok(Vec::new()),
        }
    }
}

/// The object with `apiVersion` and `kind`, which objects of a list lack.
pub(super) fn value<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["kind"] = json!(K::kind(&()));
    value
}

fn values<K: Resource<DynamicType = ()> + Serialize>(objects: &[Arc<K>]) -> Vec<Value> {
    objects.iter().map(|object| value(&**object)).collect()
}
