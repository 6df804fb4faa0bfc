//! Writes of the HostCluster controller: the endpoint of the API server.

mod port;

use capstan_api::infrastructure::{CompleteApiEndpoint, HostCluster};
use capstan_controller::Result;
use capstan_controller::error::{Doing as _, Error};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::Clusters;
use super::decide::Endpoint;
use crate::context::Infrastructure;

/// Writes the endpoint into the spec, before the status reports it.
pub(super) async fn endpoint(
    clusters: &Clusters,
    host_cluster: &HostCluster,
    endpoint: &Endpoint,
) -> Result<HostCluster> {
    let infrastructure = &clusters.infrastructure;
    match endpoint {
        Endpoint::Known | Endpoint::Wait(_) => Ok(host_cluster.clone()),
        Endpoint::TakeOver(endpoint) => write(infrastructure, host_cluster, endpoint).await,
        Endpoint::Reserve => {
            // Written by this process alone, one after the other, and what it has written is in memory at once.
            let _turn = clusters.reserving.lock().await;
            let all = infrastructure.caches.of::<HostCluster>().all().await?;
            let endpoints = all.iter().filter_map(|other| other.spec.control_plane_endpoint.as_ref());
            let promised = endpoints.map(|endpoint| endpoint.port).collect();
            let host = infrastructure.simulated_at.clone();
            let port = port::find(&host, &promised, rand::random()).ok_or_else(|| {
                let why = format!("no port of {host} is free");
                Error::transient("cannot reserve a port for the API server", why)
            })?;
            let endpoint = CompleteApiEndpoint { host, port: port.into() };
            write(infrastructure, host_cluster, &endpoint).await
        }
    }
}

async fn write(
    infrastructure: &Infrastructure,
    host_cluster: &HostCluster,
    endpoint: &CompleteApiEndpoint,
) -> Result<HostCluster> {
    let name = host_cluster.name_any();
    let patch = json!({
        "metadata": {"resourceVersion": host_cluster.resource_version()},
        "spec": {"controlPlaneEndpoint": endpoint},
    });
    infrastructure
        .api::<HostCluster>(&host_cluster.namespace().unwrap_or_default())
        .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .doing(|| format!("cannot write the endpoint of HostCluster {name}"))
}
