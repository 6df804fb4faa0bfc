//! The Nodes of a workload cluster, kept in memory by a watch.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Client, ResourceExt as _};
use std::sync::{Arc, OnceLock};
use thiserror::Error;

use super::{ClusterKey, Signals};

/// A changed Node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChangedNode {
    /// The Cluster of the Node.
    pub cluster: ClusterKey,
    /// The Node; `None` if any Node may have changed.
    pub node: Option<NodeIdentity>,
}

/// What identifies a Node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeIdentity {
    /// Its name.
    pub name: String,
    /// The provider ID.
    pub provider_id: Option<String>,
}

impl ChangedNode {
    pub(super) fn all(cluster: ClusterKey) -> Self {
        Self { cluster, node: None }
    }

    fn one(cluster: ClusterKey, node: &Node) -> Self {
        let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
        Self { cluster, node: Some(NodeIdentity { name: node.name_any(), provider_id }) }
    }
}

/// Two Nodes have the same provider ID.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unexpectedly found more than one Node matching the providerID {0}")]
pub struct Ambiguous(pub String);

/// The Nodes of a cluster at the latest event.
#[derive(Clone)]
pub struct Nodes {
    store: Store<Node>,
}

impl Nodes {
    /// The Node of a machine.
    pub fn by_provider_id(&self, provider_id: &str) -> Result<Option<Arc<Node>>, Ambiguous> {
        let is_it = |node: &Node| {
            node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == Some(provider_id)
        };
        let mut found = self.store.state().into_iter().filter(|node| is_it(node));
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Err(Ambiguous(provider_id.to_owned())),
            (found, _) => Ok(found),
        }
    }

    /// All Nodes.
    pub fn all(&self) -> Vec<Arc<Node>> {
        self.store.state()
    }

    /// The Node of a name.
    pub fn by_name(&self, name: &str) -> Option<Arc<Node>> {
        self.store.find(|node| node.name_any() == name)
    }
}

/// Removes what no controller reads and what is most of a Node.
fn lean(node: &mut Node) {
    node.managed_fields_mut().clear();
    if let Some(status) = &mut node.status {
        status.images = None;
    }
}

#[derive(Default)]
pub(super) struct NodeWatch {
    /// Filled in once the first list is complete.
    nodes: OnceLock<Nodes>,
}

impl NodeWatch {
    pub(super) fn nodes(&self) -> Option<Nodes> {
        self.nodes.get().cloned()
    }

    /// Keeps the Nodes as the API server has them, for ever.
    pub(super) async fn run(self: Arc<Self>, cluster: ClusterKey, client: Client, signals: Signals) {
        let (store, mut writer) = reflector::store();
        let events =
            watch(Api::<Node>::all(client), watcher::Config::default()).default_backoff().modify(lean);
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            // After an error the watcher restarts the watch by itself.
            let Ok(event) = event else { continue };
            writer.apply_watcher_event(&event);
            let change = match &event {
                // Before that nothing of the list is in the store.
                Event::InitDone => {
                    self.nodes.get_or_init(|| Nodes { store: store.clone() });
                    ChangedNode::all(cluster.clone())
                }
                Event::Apply(node) | Event::Delete(node) => ChangedNode::one(cluster.clone(), node),
                Event::Init | Event::InitApply(_) => continue,
            };
            signals.nodes.send(&change);
        }
    }
}
