//! What a reconcile of a HostPool reads. No writes.

use capstan_api::core::Cluster;
use capstan_api::infrastructure::Host;
use capstan_controller::Result;
use capstan_controller::error::Doing as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use std::sync::Arc;

use super::decide::machines::PUBLIC_KEY;
use super::move_guard::Clusters;
use crate::context::Infrastructure;

/// State of the Clusters of the namespace.
pub(super) async fn clusters(infrastructure: &Infrastructure, namespace: &str) -> Result<Clusters> {
    let clusters = infrastructure.caches.of::<Cluster>().in_namespace(namespace).await?;
    Ok(match clusters.is_empty() {
        true => Clusters::None,
        false if clusters.iter().any(|cluster| cluster.spec.paused == Some(true)) => Clusters::Paused,
        false => Clusters::Running,
    })
}

/// All Hosts of the namespace, of this pool and of other owners, from the cache: any of them may use a name.
pub(super) async fn hosts(infrastructure: &Infrastructure, namespace: &str) -> Result<Vec<Arc<Host>>> {
    infrastructure.caches.of::<Host>().in_namespace(namespace).await
}

/// The same, read from the API server.
pub(super) async fn hosts_now(infrastructure: &Infrastructure, namespace: &str) -> Result<Vec<Arc<Host>>> {
    let list = infrastructure.api::<Host>(namespace).list(&ListParams::default()).await;
    let list = list.doing(|| format!("cannot list Hosts in {namespace}"))?;
    Ok(list.items.into_iter().map(Arc::new).collect())
}

/// The public key that machines accept, if the Secret has one.
pub(super) async fn public_key(
    infrastructure: &Infrastructure,
    namespace: &str,
    name: &str,
) -> Result<Option<String>> {
    let found = infrastructure.api::<Secret>(namespace).get_opt(name).await;
    let found = found.doing(|| format!("cannot read Secret {namespace}/{name}"))?;
    let key = found.and_then(|secret| secret.data?.remove(PUBLIC_KEY));
    Ok(key.and_then(|key| String::from_utf8(key.0).ok()).map(|key| key.trim().to_owned()))
}
