//! What wakes a MachineDeployment's reconcile.

use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_api::meta::labels;
use capstan_api::runtime::ExtensionConfig;
use capstan_controller::owners;
use capstan_controller::watch::{changed, reference};
use futures::StreamExt as _;
use futures::stream::{iter, select_all};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use kube::core::{Selector, SelectorExt as _};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Config;

use super::MachineDeploymentReconciler;
use crate::Core;
use crate::machineset::machine_facts;

/// Runs the controller until `stop` is done.
pub async fn run(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let (of_sets, of_clusters, of_extensions) = (core.clone(), core.clone(), core.clone());
    let also = select_all([
        changed(core.all::<MachineSet>(), Config::default(), |set| {
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
        changed(core.all::<Machine>(), Config::default().labels(labels::DEPLOYMENT_NAME), machine_facts)
            .filter_map(deployment_of_machine)
            .boxed(),
        changed(core.all::<Cluster>(), Config::default(), |cluster| cluster.spec.paused)
            .then(move |cluster| deployments_of_cluster(of_clusters.clone(), cluster))
            .flat_map(iter)
            .boxed(),
        changed(Api::<ExtensionConfig>::all(core.client.clone()), Config::default(), |config| {
            (config.spec.clone(), config.status.as_ref().map(|status| status.handlers.clone()))
        })
        .then(move |_| all_deployments(of_extensions.clone()))
        .flat_map(iter)
        .boxed(),
    ]);
    let (api, own) = (core.all(), core.scope.own());
    capstan_controller::run::run(MachineDeploymentReconciler::new(core), api, own, also, stop).await;
}

/// Its controller; if there is none, all that might want to become it.
async fn deployments_of_set(core: Core, set: MachineSet) -> Vec<ObjectRef<MachineDeployment>> {
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
    let all = listed(&core, &namespace, &ListParams::default()).await;
    all.iter().filter(|deployment| wants(deployment)).map(ObjectRef::from_obj).collect()
}

async fn deployment_of_machine(machine: Machine) -> Option<ObjectRef<MachineDeployment>> {
    Some(reference(&machine.namespace()?, machine.labels().get(labels::DEPLOYMENT_NAME)?))
}

async fn deployments_of_cluster(core: Core, cluster: Cluster) -> Vec<ObjectRef<MachineDeployment>> {
    let namespace = cluster.namespace().unwrap_or_default();
    let parameters =
        ListParams::default().labels(&format!("{}={}", labels::CLUSTER_NAME, cluster.name_any()));
    listed(&core, &namespace, &parameters).await.iter().map(ObjectRef::from_obj).collect()
}

/// An extension that others waited for, or that said no, may say something else now.
async fn all_deployments(core: Core) -> Vec<ObjectRef<MachineDeployment>> {
    match core.all::<MachineDeployment>().list_metadata(&ListParams::default()).await {
        Ok(found) => {
            let named = found.iter().filter_map(|object| Some((object.namespace()?, object.name_any())));
            named.map(|(namespace, name)| reference(&namespace, &name)).collect()
        }
        Err(error) => {
            tracing::warn!(%error, "cannot list MachineDeployments to wake");
            vec![]
        }
    }
}

async fn listed(core: &Core, namespace: &str, parameters: &ListParams) -> Vec<MachineDeployment> {
    match core.api::<MachineDeployment>(namespace).list(parameters).await {
        Ok(deployments) => deployments.items,
        Err(error) => {
            tracing::warn!(%error, "cannot list MachineDeployments to wake");
            vec![]
        }
    }
}
