//! Connections to workload clusters, by the kubeconfig Secret of the contract.
//!
//! One connection for each Cluster is shared by everybody in the process. While it stands, its Nodes are kept in
//! memory and its API server is probed; both wake whoever listens.

mod connection;
mod health;
mod nodes;

use futures::Stream;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::broadcast;

use crate::error::{Doing, Error, Result};
use connection::{Connection, connect};
use health::answers;

pub use health::Health;
pub use nodes::{Ambiguous, ChangedNode, NodeIdentity, Nodes};

/// How many changes may be on their way to a slow listener before it loses the oldest ones.
const CHANGES_IN_FLIGHT: usize = 4096;

/// Namespace and name of a Cluster.
pub type ClusterKey = (String, String);

/// One connection to each workload cluster, shared by everybody in the process.
#[derive(Clone)]
pub struct Remotes {
    client: Client,
    shared: Arc<Shared>,
}

struct Shared {
    connections: Mutex<HashMap<ClusterKey, Connection>>,
    signals: Signals,
}

/// What listeners hear.
#[derive(Clone)]
struct Signals {
    nodes: broadcast::Sender<ChangedNode>,
    health: broadcast::Sender<ClusterKey>,
}

impl Remotes {
    /// No connection is made before somebody asks.
    pub fn new(client: Client) -> Self {
        let (nodes, _) = broadcast::channel(CHANGES_IN_FLIGHT);
        let (health, _) = broadcast::channel(CHANGES_IN_FLIGHT);
        let signals = Signals { nodes, health };
        Self { client, shared: Arc::new(Shared { connections: Mutex::default(), signals }) }
    }

    /// A client for the workload cluster, or `None` while it has no kubeconfig.
    pub async fn client(&self, namespace: &str, cluster: &str) -> Result<Option<Client>> {
        let name = format!("{cluster}-kubeconfig");
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let found =
            secrets.get_opt(&name).await.doing(|| format!("cannot read Secret {namespace}/{name}"))?;
        let key = (namespace.to_owned(), cluster.to_owned());
        let Some(secret) = found else {
            self.forget(&key);
            return Ok(None);
        };
        if let Some(connection) = self.connections().get(&key)
            && connection.version == secret.resource_version()
        {
            return Ok(Some(connection.client.clone()));
        }
        let client = connect(&secret).await.map_err(|error| {
            // The text of a kubeconfig error may quote the file, which holds a key: say only where to look.
            tracing::debug!(%namespace, %name, "kubeconfig cannot be used");
            Error::transient(format!("cannot use the kubeconfig in Secret {namespace}/{name}"), error)
        })?;
        let signals = self.shared.signals.clone();
        let connection = Connection::open(key.clone(), secret.resource_version(), client.clone(), signals);
        self.connections().insert(key, connection);
        Ok(Some(client))
    }

    /// Whether the cluster answers now.
    pub async fn probe(&self, namespace: &str, cluster: &str) -> bool {
        match self.client(namespace, cluster).await {
            Ok(Some(client)) => answers(&client).await,
            _ => false,
        }
    }

    /// What the probes have found so far.
    pub fn health(&self, namespace: &str, cluster: &str) -> Health {
        let key = (namespace.to_owned(), cluster.to_owned());
        self.connections().get(&key).map(Connection::health).unwrap_or_default()
    }

    /// The cluster's Nodes, or `None` while there is no connection or they have not been listed yet.
    pub async fn nodes(&self, namespace: &str, cluster: &str) -> Result<Option<Nodes>> {
        if self.client(namespace, cluster).await?.is_none() {
            return Ok(None);
        }
        let key = (namespace.to_owned(), cluster.to_owned());
        Ok(self.connections().get(&key).and_then(Connection::nodes))
    }

    /// Drops the connection, as when the Cluster is gone.
    pub fn forget(&self, key: &ClusterKey) {
        self.connections().remove(key);
    }

    /// Clusters in which a Node has changed.
    pub fn node_changes(&self) -> impl Stream<Item = ClusterKey> + Send + 'static {
        use futures::StreamExt as _;
        self.changed_nodes().map(|change| change.cluster)
    }

    /// Nodes that have changed.
    pub fn changed_nodes(&self) -> impl Stream<Item = ChangedNode> + Send + 'static {
        listen(self.shared.signals.nodes.subscribe())
    }

    /// Clusters that have begun or ceased to answer, or that still do not.
    pub fn health_changes(&self) -> impl Stream<Item = ClusterKey> + Send + 'static {
        listen(self.shared.signals.health.subscribe())
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, HashMap<ClusterKey, Connection>> {
        // What is inside is a cache: a panic elsewhere has not broken it.
        self.shared.connections.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn listen<T: Clone + Send + 'static>(
    receiver: broadcast::Receiver<T>,
) -> impl Stream<Item = T> + Send + 'static {
    futures::stream::unfold(receiver, |mut receiver| async {
        loop {
            match receiver.recv().await {
                Ok(item) => return Some((item, receiver)),
                Err(broadcast::error::RecvError::Lagged(lost)) => {
                    tracing::warn!(lost, "changes of workload clusters came faster than they were handled");
                }
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    })
}
