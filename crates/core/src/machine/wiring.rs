//! What wakes a Machine's reconcile.

use capstan_api::conditions::is_true;
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_api::meta::labels;
use capstan_controller::names::label_value;
use capstan_controller::remote::ChangedNode;
use capstan_controller::watch::changed;
use futures::stream::{iter, select_all};
use futures::{Stream, StreamExt as _};
use kube::ResourceExt as _;
use kube::api::ListParams;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Config;
use std::time::Duration;

use super::MachineReconciler;
use super::delete::node_name;
use crate::Core;
use crate::cluster::provisioned;
use crate::names::cluster::types::CONTROL_PLANE_INITIALIZED;

const RETRY: Duration = Duration::from_secs(1);

/// Which Machines something is news for.
struct Audience {
    namespace: String,
    selector: String,
    node: Option<capstan_controller::remote::NodeIdentity>,
}

/// Runs the controller until `stop` is done.
pub async fn run(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let news = select_all([
        core.remotes.changed_nodes().map(of_node).boxed(),
        changed(core.all::<Cluster>(), Config::default(), |cluster| {
            (
                cluster.spec.paused,
                provisioned(cluster),
                is_true(cluster, CONTROL_PLANE_INITIALIZED),
                cluster.metadata.deletion_timestamp.is_some(),
            )
        })
        .map(|cluster| of_label(&cluster, labels::CLUSTER_NAME))
        .boxed(),
        changed(core.all::<MachineDeployment>(), Config::default(), |deployment| {
            (
                deployment.spec.template.clone(),
                deployment.spec.rollout.clone(),
                deployment.annotations().clone(),
            )
        })
        .map(|deployment| of_label(&deployment, labels::DEPLOYMENT_NAME))
        .boxed(),
        changed(core.all::<MachineSet>(), Config::default(), |set| {
            (set.spec.template.clone(), set.annotations().clone())
        })
        .map(|set| of_label(&set, labels::SET_NAME))
        .boxed(),
    ]);
    let also = select_all([core.externals.changes().boxed(), listeners(core.clone(), news).boxed()]);
    let (api, own) = (core.all(), core.scope.own());
    capstan_controller::run::run(MachineReconciler::new(core), api, own, also, stop).await;
}

fn of_label(object: &impl kube::ResourceExt, label: &str) -> Audience {
    Audience {
        namespace: object.namespace().unwrap_or_default(),
        selector: format!("{label}={}", label_value(&object.name_any())),
        node: None,
    }
}

fn of_node(change: ChangedNode) -> Audience {
    let (namespace, cluster) = change.cluster;
    Audience { namespace, selector: format!("{}={cluster}", labels::CLUSTER_NAME), node: change.node }
}

fn listeners(
    core: Core,
    news: impl Stream<Item = Audience> + Send + 'static,
) -> impl Stream<Item = ObjectRef<Machine>> + Send + 'static {
    news.then(move |audience| {
        let core = core.clone();
        async move { audience.find(&core).await }
    })
    .flat_map(iter)
}

impl Audience {
    /// News must not be lost: asks until there is an answer.
    async fn find(&self, core: &Core) -> Vec<ObjectRef<Machine>> {
        let api = core.api::<Machine>(&self.namespace);
        let params = ListParams::default().labels(&self.selector);
        loop {
            match api.list(&params).await {
                Ok(machines) => {
                    let concerned = machines.iter().filter(|machine| self.concerns(machine));
                    return concerned.map(ObjectRef::from_obj).collect();
                }
                Err(error) => {
                    tracing::warn!(%error, selector = self.selector, "cannot list Machines; trying again");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    fn concerns(&self, machine: &Machine) -> bool {
        let Some(node) = &self.node else { return true };
        let id = machine.spec.provider_id.as_ref();
        node_name(machine) == Some(node.name.as_str()) || (id.is_some() && id == node.provider_id.as_ref())
    }
}
