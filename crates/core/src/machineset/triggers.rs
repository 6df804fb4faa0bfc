//! What wakes a MachineSet's reconcile.

use capstan_api::conditions::Conditioned as _;
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_api::meta::labels;
use capstan_controller::run::reference;
use capstan_controller::{Cache, owners};
use futures::StreamExt as _;
use futures::stream::{iter, select_all};
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt as _};
use kube::runtime::reflector::ObjectRef;
use std::sync::Arc;

use super::MachineSetReconciler;
use crate::Core;

/// Runs the controller until `stop` completes.
pub async fn run(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let all = core.caches.of::<MachineSet>();
    let (of_machines, of_clusters, of_deployments) = (all.clone(), all.clone(), all.clone());
    let also = select_all([
        core.caches
            .of::<Machine>()
            .changed(machine_facts)
            .then(move |machine| sets_of_machine(of_machines.clone(), machine))
            .flat_map(iter)
            .boxed(),
        // New machines wait until the control plane is stable. This controller does not watch control planes, but the Cluster
        // counts its machines.
        core.caches
            .of::<Cluster>()
            .changed(|cluster| {
                let status = cluster.status.as_ref();
                let control_plane = status.and_then(|status| status.control_plane.clone());
                (cluster.spec.paused, cluster.spec.control_plane_ref.clone(), control_plane)
            })
            .then(move |cluster| {
                let name = cluster.name_any();
                sets_labelled(of_clusters.clone(), cluster, name, labels::CLUSTER_NAME)
            })
            .flat_map(iter)
            .boxed(),
        core.caches
            .of::<MachineDeployment>()
            .changed(|deployment| (deployment.annotations().clone(), deployment.spec.remediation.clone()))
            .then(move |deployment| {
                let cluster = deployment.spec.cluster_name.clone();
                sets_labelled(of_deployments.clone(), deployment, cluster, labels::DEPLOYMENT_NAME)
            })
            .flat_map(iter)
            .boxed(),
        // A clone that no Machine owns yet: it may be a leftover.
        core.externals.changes().boxed(),
    ]);
    let scope = core.scope.clone();
    capstan_controller::run::run(MachineSetReconciler::new(core), all, scope, also, stop).await;
}

/// The fields of a Machine that a MachineSet reads.
pub(crate) fn machine_facts(machine: &Machine) -> impl PartialEq + Send + use<> {
    let mut metadata = machine.metadata.clone();
    metadata.resource_version = None;
    metadata.managed_fields = None;
    let status = machine.status.clone().unwrap_or_default();
    (metadata, machine.spec.clone(), machine.conditions().to_vec(), status.node_ref, status.node_info)
}

/// Its controller; if there is none, all that might want to become it.
async fn sets_of_machine(all: Cache<MachineSet>, machine: Arc<Machine>) -> Vec<ObjectRef<MachineSet>> {
    let Some(namespace) = machine.namespace() else { return vec![] };
    match owners::controller_of(&machine.metadata) {
        Some(owner) if owner.kind == "MachineSet" => return vec![reference(&namespace, &owner.name)],
        Some(_) => return vec![],
        None => {}
    }
    let wants = |set: &MachineSet| {
        let selector = Selector::try_from(set.spec.selector.clone());
        selector.is_ok_and(|selector| !selector.selects_all() && selector.matches(machine.labels()))
    };
    // The kind is not listed yet: each object is reconciled when it is.
    let found = all.in_namespace(&namespace).await.unwrap_or_default();
    found.iter().filter(|set| wants(set)).map(|found| ObjectRef::from_obj(found.as_ref())).collect()
}

/// MachineSets of a Cluster whose label names the object.
async fn sets_labelled(
    all: Cache<MachineSet>,
    object: Arc<impl ResourceExt>,
    cluster: String,
    label: &'static str,
) -> Vec<ObjectRef<MachineSet>> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let found = all.of_cluster(&namespace, &cluster).await.unwrap_or_default();
    let found = found.iter().filter(|set| set.labels().get(label) == Some(&name));
    found.map(|found| ObjectRef::from_obj(found.as_ref())).collect()
}
