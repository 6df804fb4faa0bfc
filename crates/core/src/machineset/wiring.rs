//! What wakes a MachineSet's reconcile.

use capstan_api::conditions::Conditioned as _;
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_api::meta::labels;
use capstan_controller::owners;
use capstan_controller::watch::{changed, reference};
use futures::StreamExt as _;
use futures::stream::{iter, select_all};
use kube::ResourceExt as _;
use kube::api::ListParams;
use kube::core::{Selector, SelectorExt as _};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Config;

use super::MachineSetReconciler;
use crate::Core;

/// Runs the controller until `stop` is done.
pub async fn run(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let (of_machines, of_clusters, of_deployments) = (core.clone(), core.clone(), core.clone());
    let also = select_all([
        changed(core.all::<Machine>(), Config::default(), machine_facts)
            .then(move |machine| sets_of_machine(of_machines.clone(), machine))
            .flat_map(iter)
            .boxed(),
        // New machines wait for a control plane that stands still. It is nobody's to watch from here, but the Cluster
        // counts its machines.
        changed(core.all::<Cluster>(), Config::default(), |cluster| {
            let status = cluster.status.as_ref();
            let control_plane = status.and_then(|status| status.control_plane.clone());
            (cluster.spec.paused, cluster.spec.control_plane_ref.clone(), control_plane)
        })
        .then(move |cluster| sets_labelled(of_clusters.clone(), cluster.metadata, labels::CLUSTER_NAME))
        .flat_map(iter)
        .boxed(),
        changed(core.all::<MachineDeployment>(), Config::default(), |deployment| {
            (deployment.annotations().clone(), deployment.spec.remediation.clone())
        })
        .then(move |deployment| {
            sets_labelled(of_deployments.clone(), deployment.metadata, labels::DEPLOYMENT_NAME)
        })
        .flat_map(iter)
        .boxed(),
    ]);
    let (api, own) = (core.all(), core.scope.own());
    capstan_controller::run::run(MachineSetReconciler::new(core), api, own, also, stop).await;
}

/// All of a Machine that a MachineSet looks at.
pub(crate) fn machine_facts(machine: &Machine) -> impl PartialEq + Send + use<> {
    let mut metadata = machine.metadata.clone();
    metadata.resource_version = None;
    metadata.managed_fields = None;
    let status = machine.status.clone().unwrap_or_default();
    (metadata, machine.spec.clone(), machine.conditions().to_vec(), status.node_ref, status.node_info)
}

/// Its controller; if there is none, all that might want to become it.
async fn sets_of_machine(core: Core, machine: Machine) -> Vec<ObjectRef<MachineSet>> {
    let Some(namespace) = machine.namespace() else { return vec![] };
    match owners::controller_of(&machine.metadata) {
        Some(owner) if owner.kind == "MachineSet" => return vec![reference(&namespace, &owner.name)],
        Some(_) => return vec![],
        None => {}
    }
    let sets = listed(&core, &namespace, &ListParams::default()).await;
    let wants = |set: &MachineSet| {
        let selector = Selector::try_from(set.spec.selector.clone());
        selector.is_ok_and(|selector| !selector.selects_all() && selector.matches(machine.labels()))
    };
    sets.iter().filter(|set| wants(set)).map(ObjectRef::from_obj).collect()
}

async fn sets_labelled(
    core: Core,
    object: kube::core::ObjectMeta,
    label: &'static str,
) -> Vec<ObjectRef<MachineSet>> {
    let (namespace, name) = (object.namespace.unwrap_or_default(), object.name.unwrap_or_default());
    let parameters = ListParams::default().labels(&format!("{label}={name}"));
    listed(&core, &namespace, &parameters).await.iter().map(ObjectRef::from_obj).collect()
}

async fn listed(core: &Core, namespace: &str, parameters: &ListParams) -> Vec<MachineSet> {
    match core.api::<MachineSet>(namespace).list(parameters).await {
        Ok(sets) => sets.items,
        Err(error) => {
            tracing::warn!(%error, "cannot list MachineSets to wake");
            vec![]
        }
    }
}
