//! HostCluster: the endpoint of the API server, and the failure domains.
//!
//! Reads: the HostCluster, its Cluster, the Hosts of its namespace, and of the Cluster's control plane the object, its
//! Machines and its HostMachineTemplate. Writes: of the HostCluster finalizer, endpoint and status.
//!
//! Phases: pause; deletion, which waits for the HostMachines of the Cluster; owner, finalizer; then decision, endpoint,
//! status.

mod act;
mod coalesce;
mod decide;
mod observe;
mod status;
#[cfg(test)]
mod tests;
mod triggers;

pub use decide::domains::{ControlPlane, ControlPlaneHosts, Domains};
pub use decide::{Decision, Endpoint, Observed, decide};
pub use status::write_status;

use capstan_api::core::Cluster;
use capstan_api::infrastructure::HostCluster;
use capstan_controller::patch::Patcher;
use capstan_controller::{Next, Reconciler, Result, finalizers, pause};
use kube::ResourceExt as _;
use kube::api::Api;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

use crate::context::Infrastructure;
use crate::names::hostcluster::FINALIZER;
use status::OWNED;

/// Resync of a HostCluster that is being deleted.
const DELETING: Duration = Duration::from_secs(5);

struct Clusters {
    infrastructure: Infrastructure,
    /// One reservation at a time: the next one sees it.
    reserving: Mutex<()>,
}

/// Runs the controller until `stop` completes.
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
        let cluster = observe::cluster(&self.infrastructure, &host_cluster).await?;
        if !pause::allows(&api, &*host_cluster, cluster.as_deref(), now).await? {
            return Ok(Next::Changed);
        }
        if host_cluster.metadata.deletion_timestamp.is_some() {
            return self.delete(api, &host_cluster, cluster.as_deref()).await;
        }
        let Some(cluster) = cluster else {
            let mut updated = (*host_cluster).clone();
            status::without_owner(&mut updated, now);
            pause::lifted(&mut updated, now);
            Patcher::new(api, &*host_cluster).finish(&updated, &OWNED).await?;
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
        // Into spec, before anything is said about it in status.
        let current = act::endpoint(self, &host_cluster, &decision.endpoint).await?;
        let mut updated = current.clone();
        write_status(&mut updated, &decision, now);
        pause::lifted(&mut updated, now);
        Patcher::new(api, &current).finish(&updated, &OWNED).await?;
        Ok(Next::After(decide::again(&decision)))
    }
}

impl Clusters {
    /// Nothing was made for the cluster as a whole; it only waits for its machines to give their hosts back.
    async fn delete(
        &self,
        api: Api<HostCluster>,
        host_cluster: &HostCluster,
        cluster: Option<&Cluster>,
    ) -> Result<Next> {
        let left = match cluster {
            Some(cluster) => observe::machines_left(&self.infrastructure, cluster).await?,
            None => 0,
        };
        let mut updated = host_cluster.clone();
        match left {
            0 => _ = finalizers::remove(&mut updated.metadata, FINALIZER),
            left => status::deleting(&mut updated, left, self.infrastructure.now()),
        }
        Patcher::new(api, host_cluster).finish(&updated, &OWNED).await?;
        Ok(if left == 0 { Next::Changed } else { Next::After(DELETING) })
    }
}
