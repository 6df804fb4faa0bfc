//! Connections to workload clusters, by the kubeconfig Secret of the contract.
//!
//! All controllers of the process share one connection for each Cluster. While it is open, the Nodes are cached and the API
//! server is probed; both trigger listening controllers.

mod connection;
mod health;
mod nodes;
mod request_timeout;
mod response_fixes;
mod volumes;

use futures::Stream;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Secret};
use kube::api::{Api, ListParams, PartialObjectMeta};
use kube::{Client, ResourceExt as _};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::cache::Caches;
use crate::drain::Refusals;
use crate::error::{Doing, Error, Result, chain};
use crate::knowledge::Knowledge;
use crate::signal::Signal;
use connection::{Connection, connect};
use health::responds;

pub use health::Health;
pub use nodes::{Ambiguous, ChangedNode, NodeIdentity, Nodes};
pub use volumes::LocalVolumes;

/// How long one live read of a workload cluster may take.
const LIVE_READ: Duration = Duration::from_secs(10);

/// Shortest pause between two reads of the kubeconfig Secret of a cluster without one, in case the Secret lacks the label.
const MISSING_AGAIN: Duration = Duration::from_secs(5);

/// Namespace and name of a Cluster.
pub type ClusterKey = (String, String);

/// One connection to each workload cluster, shared by all controllers of the process.
#[derive(Clone)]
pub struct Remotes {
    client: Client,
    /// The cached kubeconfig Secrets, if they are cached.
    caches: Option<Caches>,
    shared: Arc<Shared>,
}

struct Shared {
    connections: Mutex<HashMap<ClusterKey, Connection>>,
    /// When a cluster was last seen to have no kubeconfig.
    missing: Mutex<HashMap<ClusterKey, Instant>>,
    /// Evictions that workload clusters have rejected.
    refusals: Refusals,
    signals: Signals,
}

/// The events of listeners.
#[derive(Clone, Default)]
struct Signals {
    nodes: Signal<ChangedNode>,
    health: Signal<ClusterKey>,
}

impl Remotes {
    /// Connections are made at the first use.
    pub fn new(client: Client) -> Self {
        let shared = Shared {
            connections: Mutex::default(),
            missing: Mutex::default(),
            refusals: Refusals::default(),
            signals: Signals::default(),
        };
        Self { client, caches: None, shared: Arc::new(shared) }
    }

    /// Like `new`, for controllers: a kubeconfig Secret in the cache is read again only when it has changed.
    pub fn in_memory(caches: &Caches) -> Self {
        Self { caches: Some(caches.clone()), ..Self::new(caches.client().clone()) }
    }

    /// Evictions that workload clusters have rejected, for the next reconcile of a drain.
    pub fn refusals(&self) -> &Refusals {
        &self.shared.refusals
    }

    /// The resource version of the cached kubeconfig Secret. Secrets of users may lack the label by which they are cached.
    async fn version(&self, namespace: &str, name: &str) -> Result<Option<String>> {
        let Some(caches) = &self.caches else { return Ok(None) };
        let secrets = caches.beside_clusters::<PartialObjectMeta<Secret>>(namespace);
        Ok(secrets.peek(namespace, name).await?.and_then(|secret| secret.resource_version()))
    }

    /// A client for the workload cluster, or `None` if it has no kubeconfig yet.
    pub async fn client(&self, namespace: &str, cluster: &str) -> Result<Option<Client>> {
        let key = (namespace.to_owned(), cluster.to_owned());
        let name = format!("{cluster}-kubeconfig");
        let version = self.version(namespace, &name).await?;
        let is_current = |connection: &&Connection| connection.is_current(version.as_deref());
        if let Some(connection) = self.connections().get(&key).filter(is_current) {
            return Ok(Some(connection.client.clone()));
        }
        if version.is_none() && self.is_known_to_be_missing(&key) {
            return Ok(None);
        }
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let found =
            secrets.get_opt(&name).await.doing(|| format!("cannot read Secret {namespace}/{name}"))?;
        let Some(secret) = found else {
            self.forget(&key);
            self.missing().insert(key, Instant::now());
            return Ok(None);
        };
        self.missing().remove(&key);
        let kubeconfig = connection::kubeconfig(&secret);
        if let Some(connection) = self.connections().get_mut(&key)
            && Some(connection.kubeconfig.as_slice()) == kubeconfig
        {
            (connection.checked, connection.version) = (Instant::now(), secret.resource_version());
            return Ok(Some(connection.client.clone()));
        }
        let client = connect(kubeconfig).await.map_err(|error| {
            // The text of a kubeconfig error may quote the file, which holds a key: say only where to look.
            tracing::debug!(%namespace, %name, "kubeconfig cannot be used");
            Error::transient(format!("cannot use the kubeconfig in Secret {namespace}/{name}"), error)
        })?;
        let kubeconfig = kubeconfig.unwrap_or_default().to_vec();
        let mut connections = self.connections();
        // Another reconcile may have connected meanwhile: its probe and its watch of Nodes run.
        if let Some(known) = connections.get(&key).filter(|known| known.kubeconfig == kubeconfig) {
            return Ok(Some(known.client.clone()));
        }
        let signals = self.shared.signals.clone();
        let mut connection = Connection::open(key.clone(), kubeconfig, client.clone(), signals);
        connection.version = secret.resource_version();
        connections.insert(key, connection);
        Ok(Some(client))
    }

    /// Whether the cluster had no kubeconfig a moment ago. The watch reports a Secret with the label.
    fn is_known_to_be_missing(&self, key: &ClusterKey) -> bool {
        let mut missing = self.missing();
        missing.retain(|_, since| since.elapsed() < MISSING_AGAIN);
        self.caches.is_some() && missing.contains_key(key)
    }

    fn missing(&self) -> std::sync::MutexGuard<'_, HashMap<ClusterKey, Instant>> {
        // The content only saves requests: a panic elsewhere leaves it usable.
        self.shared.missing.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Probes whether the cluster responds now.
    pub async fn probe(&self, namespace: &str, cluster: &str) -> bool {
        match self.client(namespace, cluster).await {
            Ok(Some(client)) => responds(&client).await,
            _ => false,
        }
    }

    /// Results of the probes so far.
    pub fn health(&self, namespace: &str, cluster: &str) -> Health {
        let key = (namespace.to_owned(), cluster.to_owned());
        self.connections().get(&key).map(Connection::health).unwrap_or_default()
    }

    /// The Nodes of the cluster. Unknown while there is no connection, before the first list, and while the API
    /// server does not respond: none of these means that there are no Nodes.
    pub async fn nodes(&self, namespace: &str, cluster: &str) -> Result<Knowledge<Nodes>> {
        if self.client(namespace, cluster).await?.is_none() {
            return Ok(Knowledge::unknown("there is no kubeconfig for the workload cluster yet"));
        }
        let key = (namespace.to_owned(), cluster.to_owned());
        Ok(match self.connections().get(&key) {
            Some(connection) => connection.nodes(Timestamp::now()),
            None => Knowledge::unknown("the connection to the workload cluster was closed"),
        })
    }

    /// A live read of one Node, before something is deleted.
    pub async fn node_now(&self, namespace: &str, cluster: &str, name: &str) -> Knowledge<Option<Node>> {
        let client = match self.client(namespace, cluster).await {
            Ok(Some(client)) => client,
            Ok(None) => return Knowledge::unknown("there is no kubeconfig for the workload cluster yet"),
            Err(error) => return Knowledge::Unknown(chain(&error)),
        };
        let nodes: Api<Node> = Api::all(client);
        match tokio::time::timeout(LIVE_READ, nodes.get_opt(name)).await {
            Ok(Ok(node)) => Knowledge::Known(node),
            Ok(Err(error)) => Knowledge::Unknown(format!("cannot read Node {name}: {error}")),
            Err(_) => Knowledge::Unknown(format!("cannot read Node {name}: no answer for {LIVE_READ:?}")),
        }
    }

    /// Volumes that are lost with their Node, from a live read.
    pub async fn local_volumes(&self, namespace: &str, cluster: &str) -> Knowledge<LocalVolumes> {
        let client = match self.client(namespace, cluster).await {
            Ok(Some(client)) => client,
            Ok(None) => return Knowledge::unknown("there is no kubeconfig for the workload cluster yet"),
            Err(error) => return Knowledge::Unknown(chain(&error)),
        };
        let volumes: Api<PersistentVolume> = Api::all(client);
        match tokio::time::timeout(LIVE_READ, volumes.list(&ListParams::default())).await {
            Ok(Ok(list)) => Knowledge::Known(volumes::by_node(&list.items)),
            // An API server that does not serve volumes has none.
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Knowledge::Known(LocalVolumes::new()),
            Ok(Err(error)) => Knowledge::Unknown(format!("cannot list PersistentVolumes: {error}")),
            Err(_) => {
                Knowledge::Unknown(format!("cannot list PersistentVolumes: no answer for {LIVE_READ:?}"))
            }
        }
    }

    /// Closes the connection, for example when the Cluster is deleted.
    pub fn forget(&self, key: &ClusterKey) {
        self.connections().remove(key);
    }

    /// Clusters with a changed Node.
    pub fn node_changes(&self) -> impl Stream<Item = ClusterKey> + Send + 'static + use<> {
        use futures::StreamExt as _;
        self.changed_nodes().map(|change| change.cluster)
    }

    /// Changed Nodes.
    pub fn changed_nodes(&self) -> impl Stream<Item = ChangedNode> + Send + 'static + use<> {
        self.shared.signals.nodes.listen()
    }

    /// Clusters that have begun or stopped to respond, or still do not.
    pub fn health_changes(&self) -> impl Stream<Item = ClusterKey> + Send + 'static + use<> {
        self.shared.signals.health.listen()
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, HashMap<ClusterKey, Connection>> {
        // The content is a cache: a panic elsewhere leaves it usable.
        self.shared.connections.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
