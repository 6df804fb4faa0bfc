//! What wakes a topology's reconcile.

use capstan_api::conditions::get;
use capstan_api::core::{Cluster, ClusterClass, Machine, MachineDeployment, MachineHealthCheck, MachinePool};
use capstan_api::meta::labels;
use capstan_controller::Cache;
use capstan_controller::run::reference;
use capstan_topology::metadata::OWNED;
use futures::StreamExt as _;
use futures::stream::{iter, select_all};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use std::sync::Arc;

use super::TopologyReconciler;
use super::observe::class_of;
use crate::Core;
use crate::clusterclass::names::VARIABLES_READY;

/// Runs the controller until `stop` completes.
pub async fn run(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let clusters = core.caches.of::<Cluster>();
    let classes = core
        .caches
        .of::<ClusterClass>()
        .changed(|class| {
            let status = class.status.as_ref();
            (
                class.metadata.generation,
                status.and_then(|status| status.observed_generation),
                status.map(|status| status.variables.clone()),
                get(class, VARIABLES_READY).map(|condition| condition.status),
            )
        })
        .map(|class| (class.namespace().unwrap_or_default(), class.name_any()))
        .boxed();
    // Templates, which their class owns.
    let templates = core
        .externals
        .changes::<ClusterClass>()
        .map(|class| (class.namespace.unwrap_or_default(), class.name))
        .boxed();
    let all = clusters.clone();
    let of_classes = select_all([classes, templates])
        .then(move |class| {
            let all = all.clone();
            async move { of_class(&all, &class).await }
        })
        .flat_map(iter);
    let also = select_all([
        of_classes.boxed(),
        // Its infrastructure, its control plane, and their templates.
        core.externals.changes().boxed(),
        core.remotes.changed_nodes().map(|change| reference(&change.cluster.0, &change.cluster.1)).boxed(),
        core.caches
            .of::<MachineDeployment>()
            .changed(|object| {
                let meta = &object.metadata;
                let (labels, annotations) = (meta.labels.clone(), meta.annotations.clone());
                (labels, annotations, meta.deletion_timestamp.clone(), object.spec.clone())
            })
            .filter_map(of_label)
            .boxed(),
        core.caches
            .of::<MachinePool>()
            .changed(|object| {
                let nodes = object.status.as_ref().map(|status| status.node_refs.clone());
                (object.metadata.generation, object.metadata.deletion_timestamp.clone(), nodes)
            })
            .filter_map(of_label)
            .boxed(),
        core.caches
            .of::<MachineHealthCheck>()
            .changed(|object| (object.metadata.generation, object.metadata.deletion_timestamp.clone()))
            .filter_map(of_label)
            .boxed(),
        core.caches.of::<Machine>().changed(version).filter_map(of_label).boxed(),
    ]);
    let scope = core.scope.clone();
    capstan_controller::run::run(TopologyReconciler::new(core), clusters, scope, also, stop).await;
}

/// The versions of a Machine.
fn version(machine: &Machine) -> impl PartialEq + Send + use<> {
    let info = machine.status.as_ref().and_then(|status| status.node_info.as_ref());
    let kubelet = info.map(|info| info.kubelet_version.clone());
    (machine.spec.version.clone(), kubelet)
}

/// The Cluster of an object of a topology.
async fn of_label(object: Arc<impl ResourceExt>) -> Option<ObjectRef<Cluster>> {
    let labels = object.labels();
    let name = labels.get(labels::CLUSTER_NAME).filter(|_| labels.contains_key(OWNED))?;
    Some(reference(&object.namespace()?, name))
}

/// The Clusters of a class.
async fn of_class(clusters: &Cache<Cluster>, class: &(String, String)) -> Vec<ObjectRef<Cluster>> {
    // Not listed yet: each is reconciled when it is.
    let all = clusters.all().await.unwrap_or_default();
    let is_of = |cluster: &Cluster| {
        cluster.spec.topology.as_ref().is_some_and(|topology| {
            let (namespace, name) = class_of(cluster, topology);
            namespace == class.0 && name == class.1
        })
    };
    let found = all.iter().filter(|cluster| is_of(cluster));
    found.map(|cluster| ObjectRef::from_obj(cluster.as_ref())).collect()
}
