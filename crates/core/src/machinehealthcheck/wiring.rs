//! What wakes a MachineHealthCheck's reconcile.

use capstan_api::conditions::Conditioned as _;
use capstan_api::core::{Cluster, Machine, MachineHealthCheck};
use capstan_api::meta::labels;
use capstan_controller::watch::changed;
use futures::StreamExt as _;
use futures::stream::{iter, select_all};
use kube::ResourceExt as _;
use kube::api::ListParams;
use kube::core::{Selector, SelectorExt as _};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Config;

use super::MachineHealthCheckReconciler;
use crate::Core;

/// Runs the controller until `stop` is done.
pub async fn run(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let (of_machines, of_clusters, of_nodes) = (core.clone(), core.clone(), core.clone());
    let also = select_all([
        changed(core.all::<Machine>(), Config::default(), |machine| {
            let node = machine.status.as_ref().and_then(|status| status.node_ref.clone());
            let metadata = (machine.metadata.labels.clone(), machine.metadata.annotations.clone());
            (machine.conditions().to_vec(), node, metadata, machine.metadata.deletion_timestamp.clone())
        })
        .then(move |machine| checks_of_machine(of_machines.clone(), machine))
        .flat_map(iter)
        .boxed(),
        changed(core.all::<Cluster>(), Config::default(), |cluster| {
            (cluster.spec.paused, cluster.conditions().to_vec())
        })
        .then(move |cluster| {
            checks_of_cluster(
                of_clusters.clone(),
                cluster.namespace().unwrap_or_default(),
                cluster.name_any(),
            )
        })
        .flat_map(iter)
        .boxed(),
        core.remotes
            .node_changes()
            .then(move |(namespace, cluster)| checks_of_cluster(of_nodes.clone(), namespace, cluster))
            .flat_map(iter)
            .boxed(),
    ]);
    let (api, own) = (core.all(), core.scope.own());
    capstan_controller::run::run(MachineHealthCheckReconciler::new(core), api, own, also, stop).await;
}

async fn checks_of_machine(core: Core, machine: Machine) -> Vec<ObjectRef<MachineHealthCheck>> {
    let namespace = machine.namespace().unwrap_or_default();
    let selects = |check: &MachineHealthCheck| {
        let selector = Selector::try_from(check.spec.selector.clone());
        selector.is_ok_and(|selector| !selector.selects_all() && selector.matches(machine.labels()))
    };
    let checks = listed(&core, &namespace, &machine.spec.cluster_name).await;
    checks.iter().filter(|check| selects(check)).map(ObjectRef::from_obj).collect()
}

async fn checks_of_cluster(
    core: Core,
    namespace: String,
    cluster: String,
) -> Vec<ObjectRef<MachineHealthCheck>> {
    listed(&core, &namespace, &cluster).await.iter().map(ObjectRef::from_obj).collect()
}

async fn listed(core: &Core, namespace: &str, cluster: &str) -> Vec<MachineHealthCheck> {
    let parameters = ListParams::default().labels(&format!("{}={cluster}", labels::CLUSTER_NAME));
    match core.api::<MachineHealthCheck>(namespace).list(&parameters).await {
        Ok(checks) => checks.items,
        Err(error) => {
            tracing::warn!(%error, "cannot list MachineHealthChecks to wake");
            vec![]
        }
    }
}
