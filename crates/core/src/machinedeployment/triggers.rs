//! What wakes a MachineDeployment's reconcile.

use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_api::meta::labels;
use capstan_api::runtime::ExtensionConfig;
use capstan_controller::run::reference;
use capstan_controller::{Cache, owners};
use futures::StreamExt as _;
use futures::stream::{iter, select_all};
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};
use kube::runtime::reflector::ObjectRef;
use std::sync::Arc;

use super::MachineDeploymentReconciler;
use crate::Core;
use crate::machineset::machine_facts;

/// Runs the controller until `stop` completes.
pub async fn run(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let all = core.caches.of::<MachineDeployment>();
    let (of_sets, of_clusters, of_extensions) = (all.clone(), all.clone(), all.clone());
    let also = select_all([
        core.caches
            .of::<MachineSet>()
            .changed(|set| {
                (
                    set.metadata.generation,
                    set.metadata.annotations.clone(),
                    set.status.clone(),
                    set.metadata.labels.clone(),
                )
            })
            .then(move |set| deployments_of_set(of_sets.clone(), set))
            .flat_map(iter)
            .boxed(),
        core.caches.of::<Machine>().changed(machine_facts).filter_map(deployment_of_machine).boxed(),
        core.caches
            .of::<Cluster>()
            .changed(|cluster| cluster.spec.paused)
            .then(move |cluster| deployments_of_cluster(of_clusters.clone(), cluster))
            .flat_map(iter)
            .boxed(),
        core.caches
            .of_cluster_scoped::<ExtensionConfig>()
            .changed(|config| {
                (config.spec.clone(), config.status.as_ref().map(|status| status.handlers.clone()))
            })
            .then(move |_| all_deployments(of_extensions.clone()))
            .flat_map(iter)
            .boxed(),
    ]);
    let scope = core.scope.clone();
    capstan_controller::run::run(MachineDeploymentReconciler::new(core), all, scope, also, stop).await;
}

/// Its controller; if there is none, all that might want to become it.
async fn deployments_of_set(
    all: Cache<MachineDeployment>,
    set: Arc<MachineSet>,
) -> Vec<ObjectRef<MachineDeployment>> {
    let Some(namespace) = set.namespace() else { return vec![] };
    match owners::controller_of(&set.metadata) {
        Some(owner) if owner.kind == "MachineDeployment" => return vec![reference(&namespace, &owner.name)],
        Some(_) => return vec![],
        None => {}
    }
    let wants = |deployment: &MachineDeployment| {
        let selector = Selector::try_from(deployment.spec.selector.clone());
        selector.is_ok_and(|selector| !selector.selects_all() && selector.matches(set.labels()))
    };
    // The kind is not listed yet: each object is reconciled when it is.
    let found = all.in_namespace(&namespace).await.unwrap_or_default();
    found
        .iter()
        .filter(|deployment| wants(deployment))
        .map(|found| ObjectRef::from_obj(found.as_ref()))
        .collect()
}

async fn deployment_of_machine(machine: Arc<Machine>) -> Option<ObjectRef<MachineDeployment>> {
    Some(reference(&machine.namespace()?, machine.labels().get(labels::DEPLOYMENT_NAME)?))
}

async fn deployments_of_cluster(
    all: Cache<MachineDeployment>,
    cluster: Arc<Cluster>,
) -> Vec<ObjectRef<MachineDeployment>> {
    let namespace = cluster.namespace().unwrap_or_default();
    let found = all.of_cluster(&namespace, &cluster.name_any()).await.unwrap_or_default();
    found.iter().map(|found| ObjectRef::from_obj(found.as_ref())).collect()
}

/// An extension that others waited for, or that said no, may say something else now.
async fn all_deployments(all: Cache<MachineDeployment>) -> Vec<ObjectRef<MachineDeployment>> {
    let found = all.all().await.unwrap_or_default();
    found.iter().map(|found| ObjectRef::from_obj(found.as_ref())).collect()
}
