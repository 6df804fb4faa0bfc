//! What wakes a MachineHealthCheck's reconcile.

use capstan_api::conditions::Conditioned as _;
use capstan_api::core::{Cluster, Machine, MachineHealthCheck};
use capstan_controller::Cache;
use futures::StreamExt as _;
use futures::stream::{iter, select_all};
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};
use kube::runtime::reflector::ObjectRef;
use std::sync::Arc;

use super::MachineHealthCheckReconciler;
use crate::Core;

/// Runs the controller until `stop` completes.
pub async fn run(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let all = core.caches.of::<MachineHealthCheck>();
    let (of_machines, of_clusters, of_nodes) = (all.clone(), all.clone(), all.clone());
    let also = select_all([
        core.caches
            .of::<Machine>()
            .changed(|machine| {
                let node = machine.status.as_ref().and_then(|status| status.node_ref.clone());
                let metadata = (machine.metadata.labels.clone(), machine.metadata.annotations.clone());
                (machine.conditions().to_vec(), node, metadata, machine.metadata.deletion_timestamp.clone())
            })
            .then(move |machine| checks_of_machine(of_machines.clone(), machine))
            .flat_map(iter)
            .boxed(),
        core.caches
            .of::<Cluster>()
            .changed(|cluster| (cluster.spec.paused, cluster.conditions().to_vec()))
            .then(move |cluster| {
                let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
                checks_of_cluster(of_clusters.clone(), namespace, name)
            })
            .flat_map(iter)
            .boxed(),
        core.remotes
            .node_changes()
            .then(move |(namespace, cluster)| checks_of_cluster(of_nodes.clone(), namespace, cluster))
            .flat_map(iter)
            .boxed(),
    ]);
    let scope = core.scope.clone();
    capstan_controller::run::run(MachineHealthCheckReconciler::new(core), all, scope, also, stop).await;
}

async fn checks_of_machine(
    all: Cache<MachineHealthCheck>,
    machine: Arc<Machine>,
) -> Vec<ObjectRef<MachineHealthCheck>> {
    let namespace = machine.namespace().unwrap_or_default();
    let selects = |check: &MachineHealthCheck| {
        let selector = Selector::try_from(check.spec.selector.clone());
        let is_of_cluster = check.spec.cluster_name == machine.spec.cluster_name;
        is_of_cluster
            && selector.is_ok_and(|selector| !selector.selects_all() && selector.matches(machine.labels()))
    };
    // The kind is not listed yet: each object is reconciled when it is.
    let found = all.in_namespace(&namespace).await.unwrap_or_default();
    found.iter().filter(|check| selects(check)).map(|found| ObjectRef::from_obj(found.as_ref())).collect()
}

async fn checks_of_cluster(
    all: Cache<MachineHealthCheck>,
    namespace: String,
    cluster: String,
) -> Vec<ObjectRef<MachineHealthCheck>> {
    let found = all.in_namespace(&namespace).await.unwrap_or_default();
    let found = found.iter().filter(|check| check.spec.cluster_name == cluster);
    found.map(|found| ObjectRef::from_obj(found.as_ref())).collect()
}
