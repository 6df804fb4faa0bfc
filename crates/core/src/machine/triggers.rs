//! The events that trigger a reconcile of a Machine.

use capstan_api::conditions::is_true;
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_api::meta::labels;
use capstan_controller::Cache;
use capstan_controller::names::label_value;
use capstan_controller::remote::{ChangedNode, ClusterKey, NodeIdentity};
use futures::StreamExt as _;
use futures::stream::{iter, select_all};
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;

use super::MachineReconciler;
use super::decide::node;
use crate::Core;
use crate::cluster::provisioned;
use crate::names::cluster::types::CONTROL_PLANE_INITIALIZED;

/// The Machines that an event concerns.
enum Audience {
    /// All Machines of a Cluster.
    OfCluster(ClusterKey),
    /// The Machine of this Node.
    OfNode(ClusterKey, NodeIdentity),
    /// All Machines of a Cluster with this label.
    Labelled { cluster: ClusterKey, label: &'static str, value: String },
}

/// Runs the controller until `stop` completes.
pub async fn run(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let news = select_all([
        core.remotes.changed_nodes().map(of_node).boxed(),
        core.caches
            .of::<Cluster>()
            .changed(|cluster| {
                (
                    cluster.spec.paused,
                    provisioned(cluster),
                    is_true(cluster, CONTROL_PLANE_INITIALIZED),
                    cluster.metadata.deletion_timestamp.is_some(),
                )
            })
            .map(|cluster| Audience::OfCluster((cluster.namespace().unwrap_or_default(), cluster.name_any())))
            .boxed(),
        core.caches
            .of::<MachineDeployment>()
            .changed(|deployment| {
                (
                    deployment.spec.template.clone(),
                    deployment.spec.rollout.clone(),
                    deployment.annotations().clone(),
                )
            })
            .map(|deployment| {
                of_label(deployment.as_ref(), &deployment.spec.cluster_name, labels::DEPLOYMENT_NAME)
            })
            .boxed(),
        core.caches
            .of::<MachineSet>()
            .changed(|set| (set.spec.template.clone(), set.annotations().clone()))
            .map(|set| of_label(set.as_ref(), &set.spec.cluster_name, labels::SET_NAME))
            .boxed(),
    ]);
    let machines = core.caches.of::<Machine>();
    let listeners = news
        .then(move |audience| {
            let machines = machines.clone();
            async move { audience.find(&machines).await }
        })
        .flat_map(iter);
    let also = select_all([core.externals.changes().boxed(), listeners.boxed()]);
    let (cache, scope) = (core.caches.of(), core.scope.clone());
    capstan_controller::run::run(MachineReconciler::new(core), cache, scope, also, stop).await;
}

fn of_label(object: &impl kube::ResourceExt, cluster: &str, label: &'static str) -> Audience {
    let cluster = (object.namespace().unwrap_or_default(), cluster.to_owned());
    Audience::Labelled { cluster, label, value: label_value(&object.name_any()) }
}

fn of_node(change: ChangedNode) -> Audience {
    match change.node {
        Some(node) => Audience::OfNode(change.cluster, node),
        None => Audience::OfCluster(change.cluster),
    }
}

impl Audience {
    async fn find(&self, machines: &Cache<Machine>) -> Vec<ObjectRef<Machine>> {
        let found = match self {
            Self::OfCluster((namespace, cluster))
            | Self::OfNode((namespace, cluster), _)
            | Self::Labelled { cluster: (namespace, cluster), .. } => {
                machines.of_cluster(namespace, cluster).await
            }
        };
        match found {
            Ok(found) => {
                let concerned = found.iter().filter(|machine| self.concerns(machine));
                concerned.map(|machine| ObjectRef::from_obj(machine.as_ref())).collect()
            }
            // Not listed yet: each is looked at when it is.
            Err(_) => Vec::new(),
        }
    }

    fn concerns(&self, machine: &Machine) -> bool {
        match self {
            Self::OfCluster(_) => true,
            Self::OfNode(_, node) => {
                let id = machine.spec.provider_id.as_ref();
                let is_same = id.is_some() && id == node.provider_id.as_ref();
                is_same || node::name(machine) == Some(node.name.as_str())
            }
            Self::Labelled { label, value, .. } => machine.labels().get(*label) == Some(value),
        }
    }
}
