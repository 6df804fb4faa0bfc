//! What wakes a MachinePool's reconcile.

use capstan_api::conditions::is_true;
use capstan_api::core::{Cluster, Machine, MachinePool};
use capstan_api::meta::labels;
use capstan_controller::names::label_value;
use capstan_controller::remote::{ChangedNode, ClusterKey, NodeIdentity};
use capstan_controller::{Cache, owners};
use futures::StreamExt as _;
use futures::stream::{iter, select_all};
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;
use std::sync::Arc;

use super::MachinePoolReconciler;
use super::decide::nodes;
use crate::Core;
use crate::cluster::provisioned;
use crate::machineset::machine_facts;
use crate::names::cluster::types::CONTROL_PLANE_INITIALIZED;

/// The MachinePools that an event concerns.
enum Audience {
    /// All MachinePools of a Cluster.
    OfCluster(ClusterKey),
    /// The MachinePool of this Node.
    OfNode(ClusterKey, NodeIdentity),
    /// The MachinePool with this name, or whose name has this value as a label.
    Named { namespace: String, name: String },
}

/// Runs the controller until `stop` completes.
pub async fn run(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let pools = core.caches.of::<MachinePool>();
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
        core.caches.of::<Machine>().changed(machine_facts).filter_map(of_machine).boxed(),
        core.externals
            .changes::<MachinePool>()
            .map(|pool| Audience::Named { namespace: pool.namespace.unwrap_or_default(), name: pool.name })
            .boxed(),
    ]);
    let all = pools.clone();
    let also = news
        .then(move |audience| {
            let all = all.clone();
            async move { audience.find(&all).await }
        })
        .flat_map(iter);
    let scope = core.scope.clone();
    capstan_controller::run::run(MachinePoolReconciler::new(core), pools, scope, also.boxed(), stop).await;
}

fn of_node(change: ChangedNode) -> Audience {
    match change.node {
        Some(node) => Audience::OfNode(change.cluster, node),
        None => Audience::OfCluster(change.cluster),
    }
}

/// The pool that controls a Machine; if none does, the one that its label names.
async fn of_machine(machine: Arc<Machine>) -> Option<Audience> {
    let namespace = machine.namespace()?;
    let name = match owners::controller_of(&machine.metadata) {
        Some(owner) if owner.kind == "MachinePool" => owner.name.clone(),
        Some(_) => return None,
        None => machine.labels().get(labels::POOL_NAME)?.clone(),
    };
    Some(Audience::Named { namespace, name })
}

impl Audience {
    async fn find(&self, pools: &Cache<MachinePool>) -> Vec<ObjectRef<MachinePool>> {
        let found = match self {
            Self::OfCluster((namespace, cluster)) | Self::OfNode((namespace, cluster), _) => {
                pools.of_cluster(namespace, cluster).await
            }
            Self::Named { namespace, .. } => pools.in_namespace(namespace).await,
        };
        // Not listed yet: each is reconciled when it is.
        let found = found.unwrap_or_default();
        let concerned = found.iter().filter(|pool| self.concerns(pool));
        concerned.map(|pool| ObjectRef::from_obj(pool.as_ref())).collect()
    }

    fn concerns(&self, pool: &MachinePool) -> bool {
        match self {
            Self::OfCluster(_) => true,
            Self::OfNode(_, node) => nodes::may_be_of(pool, &node.name, node.provider_id.as_deref()),
            Self::Named { name, .. } => pool.name_any() == *name || label_value(&pool.name_any()) == *name,
        }
    }
}
