//! ClusterResourceSetBinding: is deleted with its Cluster.
//!
//! Reads: the ClusterResourceSetBinding, its Cluster.
//! Writes: deletions.

use capstan_api::addons::ClusterResourceSetBinding;
use capstan_api::core::Cluster;
use capstan_controller::{Grounds, Next, Reconciler, Result, destroy, pause};
use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;
use std::sync::Arc;

use crate::Core;

/// Reconciles ClusterResourceSetBindings.
pub struct ClusterResourceSetBindingReconciler {
    core: Core,
}

impl ClusterResourceSetBindingReconciler {
    /// A reconciler with these clients.
    pub fn new(core: Core) -> Self {
        Self { core }
    }
}

impl Reconciler for ClusterResourceSetBindingReconciler {
    type Object = ClusterResourceSetBinding;

    fn name(&self) -> &'static str {
        "clusterresourcesetbinding"
    }

    async fn reconcile(&self, object: Arc<ClusterResourceSetBinding>) -> Result<Next> {
        let namespace = object.namespace().unwrap_or_default();
        let cluster = self.core.caches.of::<Cluster>().get(&namespace, &object.spec.cluster_name).await?;
        let is_paused =
            pause::reason(cluster.as_deref(), "ClusterResourceSetBinding", &object.metadata).is_some();
        if is_paused || object.metadata.deletion_timestamp.is_some() || is_needed(cluster.as_deref()) {
            return Ok(Next::Changed);
        }
        let api = self.core.api::<ClusterResourceSetBinding>(&namespace);
        destroy::delete(&api, &object.metadata, &Grounds::asked("its Cluster is deleted")).await?;
        Ok(Next::Changed)
    }
}

/// Whether the Cluster of a record is there to stay.
fn is_needed(cluster: Option<&Cluster>) -> bool {
    cluster.is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_none())
}

/// Runs the controller until `stop` completes.
pub async fn run(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let also = core
        .caches
        .of::<Cluster>()
        .changed(|cluster| cluster.metadata.deletion_timestamp.is_some())
        .map(|cluster| {
            let namespace = cluster.namespace().unwrap_or_default();
            ObjectRef::new(&cluster.name_any()).within(&namespace)
        })
        .boxed();
    let (cache, scope) = (core.caches.of(), core.scope.clone());
    capstan_controller::run::run(ClusterResourceSetBindingReconciler::new(core), cache, scope, also, stop)
        .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_record_is_needed_while_its_cluster_is_not_deleted() {
        let cluster = |metadata: serde_json::Value| -> Cluster {
            let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata, "spec": {}});
            serde_json::from_value(cluster).expect("a Cluster")
        };
        assert!(is_needed(Some(&cluster(json!({"name": "c"})))));
        let deleting = cluster(json!({"name": "c", "deletionTimestamp": "2025-01-01T00:00:00Z"}));
        assert!(!is_needed(Some(&deleting)) && !is_needed(None));
    }
}
