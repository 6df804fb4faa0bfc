//! HostCluster: where the API server will be reached, and which failure domains there are.
//!
//! Reads: the HostCluster, its Cluster, the Hosts of its namespace, and of the Cluster's control plane the object, its
//! Machines and its HostMachineTemplate. Writes: of the HostCluster finalizer, endpoint and status.

mod decide;
mod domains;
mod observe;
mod port;
#[cfg(test)]
mod tests;
mod triggers;

pub use decide::{Decision, Endpoint, Observed, decide, tell};
pub use domains::{ControlPlane, ControlPlaneHosts, Domains};

use capstan_api::conditions::{NewCondition, reasons as shared, set, types};
use capstan_api::core::Cluster;
use capstan_api::infrastructure::{CompleteApiEndpoint, HostCluster, HostMachine};
use capstan_api::meta::labels;
use capstan_controller::error::{Doing as _, Error};
use capstan_controller::patch::Patcher;
use capstan_controller::{Next, Reconciler, Result, finalizers, owners, pause};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

use crate::context::Infrastructure;
use crate::names::hostcluster::{ENDPOINT_AVAILABLE, FAILURE_DOMAINS_KNOWN, FINALIZER, reasons};

/// Another look, in case somebody missed something.
const RESYNC: Duration = Duration::from_secs(60);
/// Retry after the control plane or its template could not be read.
const UNKNOWN: Duration = Duration::from_secs(10);
/// Conditions that are ours to say.
const OWNED: [&str; 5] =
    [types::READY, ENDPOINT_AVAILABLE, FAILURE_DOMAINS_KNOWN, types::DELETING, types::PAUSED];

struct Clusters {
    infrastructure: Infrastructure,
    /// One reservation at a time: the next one sees it.
    reserving: Mutex<()>,
}

/// Runs the controller until `stop` is done.
pub async fn run(infrastructure: Infrastructure, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let also = triggers::all(&infrastructure);
    let (cache, scope) = (infrastructure.caches.of(), infrastructure.scope.clone());
    let clusters = Clusters { infrastructure, reserving: Mutex::default() };
    capstan_controller::run::run(clusters, cache, scope, also, stop).await;
}

impl Reconciler for Clusters {
    type Object = HostCluster;

    fn name(&self) -> &'static str {
        "hostcluster"
    }

    async fn reconcile(&self, host_cluster: Arc<HostCluster>) -> Result<Next> {
        if pause::is_externally_managed(&*host_cluster) {
            return Ok(Next::Changed);
        }
        let namespace = host_cluster.namespace().unwrap_or_default();
        let api = self.infrastructure.api::<HostCluster>(&namespace);
        let now = self.infrastructure.now();
        let owner = owners::of_kind(host_cluster.meta(), "Cluster", &Cluster::group(&()));
        let cluster = match owner {
            Some(owner) => self.infrastructure.remembered::<Cluster>(&namespace, &owner.name).await?,
            None => None,
        };
        if !pause::allows(&api, &*host_cluster, cluster.as_ref(), now).await? {
            return Ok(Next::Changed);
        }
        if host_cluster.metadata.deletion_timestamp.is_some() {
            return self.delete(&host_cluster, cluster.as_ref()).await;
        }
        let Some(cluster) = cluster else {
            let mut told = (*host_cluster).clone();
            let waits = NewCondition::new(types::READY, false, reasons::WAITING_FOR_OWNER)
                .message("waiting for a Cluster whose spec.infrastructureRef names this HostCluster");
            set(&mut told, waits, now);
            pause::lifted(&mut told, now);
            Patcher::new(api, &*host_cluster).finish(&told, &OWNED).await?;
            return Ok(Next::Changed);
        };
        if finalizers::ensure(&api, &*host_cluster, FINALIZER).await? {
            return Ok(Next::Changed);
        }
        let hosts = self.infrastructure.remembered_hosts(&namespace).await?;
        let control_plane = observe::control_plane(&self.infrastructure, &cluster).await?;
        let decision = decide(&Observed {
            cluster: &cluster,
            host_cluster: &host_cluster,
            hosts: &hosts,
            control_plane: &control_plane,
        });
        let current = self.settle(&host_cluster, &decision.endpoint).await?;
        let mut told = current.clone();
        tell(&mut told, &decision, now);
        pause::lifted(&mut told, now);
        Patcher::new(api, &current).finish(&told, &OWNED).await?;
        Ok(Next::After(if decision.domains.unknown.is_some() { UNKNOWN } else { RESYNC }))
    }
}

impl Clusters {
    /// Writes the endpoint into spec, before anything is said about it in status.
    async fn settle(&self, host_cluster: &HostCluster, endpoint: &Endpoint) -> Result<HostCluster> {
        match endpoint {
            Endpoint::Known | Endpoint::Wait { .. } => Ok(host_cluster.clone()),
            Endpoint::TakeOver(endpoint) => self.write(host_cluster, endpoint).await,
            Endpoint::Reserve => {
                let _turn = self.reserving.lock().await;
                let all = self
                    .infrastructure
                    .all::<HostCluster>()
                    .list(&ListParams::default())
                    .await
                    .doing(|| "cannot list HostClusters".to_owned())?;
                let endpoints = all.iter().filter_map(|other| other.spec.control_plane_endpoint.as_ref());
                let promised = endpoints.map(|endpoint| endpoint.port).collect();
                let host = self.infrastructure.simulated_at.clone();
                let port = port::find(&host, &promised, rand::random()).ok_or_else(|| {
                    let why = format!("no port of {host} is free");
                    Error::transient("cannot reserve a port for the API server", why)
                })?;
                let endpoint = CompleteApiEndpoint { host, port: port.into() };
                self.write(host_cluster, &endpoint).await
            }
        }
    }

    async fn write(&self, host_cluster: &HostCluster, endpoint: &CompleteApiEndpoint) -> Result<HostCluster> {
        let name = host_cluster.name_any();
        let patch = json!({
            "metadata": {"resourceVersion": host_cluster.resource_version()},
            "spec": {"controlPlaneEndpoint": endpoint},
        });
        self.infrastructure
            .api::<HostCluster>(&host_cluster.namespace().unwrap_or_default())
            .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .doing(|| format!("cannot write the endpoint of HostCluster {name}"))
    }

    /// Nothing was made for the cluster as a whole; it only waits for its machines to give their hosts back.
    async fn delete(&self, host_cluster: &HostCluster, cluster: Option<&Cluster>) -> Result<Next> {
        let namespace = host_cluster.namespace().unwrap_or_default();
        let left = match cluster {
            Some(cluster) => {
                let ours = format!("{}={}", labels::CLUSTER_NAME, cluster.name_any());
                let api = self.infrastructure.api::<HostMachine>(&namespace);
                let list = api.list_metadata(&ListParams::default().labels(&ours)).await;
                list.doing(|| format!("cannot list HostMachines in {namespace}"))?.items.len()
            }
            None => 0,
        };
        let mut told = host_cluster.clone();
        if left == 0 {
            finalizers::remove(&mut told.metadata, FINALIZER);
        } else {
            let message = format!("waiting for {left} HostMachines of the Cluster to give their hosts back");
            let waits =
                NewCondition::new(types::DELETING, true, reasons::WAITING_FOR_MACHINES).message(message);
            set(&mut told, waits, self.infrastructure.now());
            let not = NewCondition::new(types::READY, false, shared::DELETING).message("being deleted");
            set(&mut told, not, self.infrastructure.now());
        }
        let api = self.infrastructure.api::<HostCluster>(&namespace);
        Patcher::new(api, host_cluster).finish(&told, &OWNED).await?;
        Ok(if left == 0 { Next::Changed } else { Next::After(Duration::from_secs(5)) })
    }
}
