//! What this provider asks of the workload cluster.

use capstan_controller::remote::Remotes;
use std::future::Future;

/// Whether a workload cluster can be used.
pub trait Workload: Send + Sync + 'static {
    /// Whether its API server answers through the kubeconfig Secret.
    fn answers(&self, namespace: &str, cluster: &str) -> impl Future<Output = bool> + Send;
}

impl Workload for Remotes {
    async fn answers(&self, namespace: &str, cluster: &str) -> bool {
        self.probe(namespace, cluster).await
    }
}
