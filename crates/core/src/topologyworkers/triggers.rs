//! What wakes the reconciles of MachineDeployments and MachineSets of a topology: themselves, and the end of a pause.

use capstan_api::core::{Cluster, MachineDeployment, MachineSet};
use capstan_controller::Cache;
use capstan_controller::cache::Cached;
use futures::stream::iter;
use futures::{Stream, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt as _};

use super::{TopologyMachineDeploymentReconciler, TopologyMachineSetReconciler};
use crate::Core;

/// Runs the controller of MachineDeployments until `stop` completes.
pub async fn run_machine_deployments(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let (cache, scope) = (core.caches.of::<MachineDeployment>(), core.scope.clone());
    let also = of_clusters(&core, &cache);
    let reconciler = TopologyMachineDeploymentReconciler::new(core);
    capstan_controller::run::run(reconciler, cache, scope, also.boxed(), stop).await;
}

/// Runs the controller of MachineSets until `stop` completes.
pub async fn run_machine_sets(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let (cache, scope) = (core.caches.of::<MachineSet>(), core.scope.clone());
    let also = of_clusters(&core, &cache);
    capstan_controller::run::run(TopologyMachineSetReconciler::new(core), cache, scope, also.boxed(), stop)
        .await;
}

fn of_clusters<K>(core: &Core, all: &Cache<K>) -> impl Stream<Item = ObjectRef<K>> + Send + use<K>
where
    K: Cached + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let all = all.clone();
    core.caches
        .of::<Cluster>()
        .changed(|cluster| (cluster.spec.paused, cluster.metadata.annotations.clone()))
        .then(move |cluster| {
            let all = all.clone();
            async move {
                let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
                // Not listed yet: each is reconciled when it is.
                let found = all.of_cluster(&namespace, &name).await.unwrap_or_default();
                found.iter().map(|object| ObjectRef::from_obj(object.as_ref())).collect::<Vec<_>>()
            }
        })
        .flat_map(iter)
}
