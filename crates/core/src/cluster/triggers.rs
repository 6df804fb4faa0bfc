//! What wakes a Cluster's reconcile.

use capstan_api::conditions::{Conditioned as _, get, types};
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachinePool, MachineSet};
use capstan_api::meta::labels;
use capstan_controller::run::reference;
use futures::stream::select_all;
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use std::sync::Arc;

use super::ClusterReconciler;
use crate::Core;
use crate::names::machine::types as machine_types;

/// Runs the controller until `stop` completes.
pub async fn run(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let also = select_all([
        core.externals.changes().boxed(),
        core.remotes.health_changes().map(|(namespace, name)| reference(&namespace, &name)).boxed(),
        core.caches.of().changed(machine_facts).filter_map(of_label).boxed(),
        core.caches
            .of::<MachineDeployment>()
            .changed(|object| {
                (
                    object.status.clone(),
                    object.metadata.generation,
                    object.metadata.deletion_timestamp.clone(),
                )
            })
            .filter_map(of_label)
            .boxed(),
        core.caches
            .of::<MachineSet>()
            .changed(|object| {
                (
                    object.status.clone(),
                    object.metadata.generation,
                    object.metadata.deletion_timestamp.clone(),
                )
            })
            .filter_map(of_label)
            .boxed(),
        core.caches
            .of::<MachinePool>()
            .changed(|object| {
                (
                    object.status.clone(),
                    object.metadata.generation,
                    object.metadata.deletion_timestamp.clone(),
                )
            })
            .filter_map(of_label)
            .boxed(),
        secrets(&core).filter_map(of_kubeconfig).boxed(),
    ]);
    let (cache, scope) = (core.caches.of(), core.scope.clone());
    capstan_controller::run::run(ClusterReconciler::new(core), cache, scope, also, stop).await;
}

/// Only metadata, and only where clusters are: what is in the Secrets of a whole installation does not belong in memory.
fn secrets(core: &Core) -> impl Stream<Item = Arc<PartialObjectMeta<Secret>>> + Send + use<> {
    core.scope.beside_clusters(&core.caches, |secret: &PartialObjectMeta<Secret>| {
        secret.metadata.resource_version.clone()
    })
}

fn machine_facts(machine: &Machine) -> impl PartialEq + Send + use<> {
    let times = [
        types::READY,
        types::AVAILABLE,
        machine_types::UP_TO_DATE,
        machine_types::HEALTH_CHECK_SUCCEEDED,
        machine_types::OWNER_REMEDIATED,
    ]
    .map(|type_| get(machine, type_).map(|condition| (condition.status, condition.message.clone())));
    let has_node = machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
    let conditions = machine.conditions().is_empty();
    (times, has_node, conditions, machine.metadata.deletion_timestamp.is_some(), machine.spec.version.clone())
}

async fn of_label(object: Arc<impl ResourceExt>) -> Option<ObjectRef<Cluster>> {
    let name = object.labels().get(labels::CLUSTER_NAME)?;
    Some(reference(&object.namespace()?, name))
}

async fn of_kubeconfig(secret: Arc<PartialObjectMeta<Secret>>) -> Option<ObjectRef<Cluster>> {
    let name = secret.name_any();
    Some(reference(&secret.namespace()?, name.strip_suffix("-kubeconfig")?))
}
