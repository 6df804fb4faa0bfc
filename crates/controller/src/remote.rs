//! Connections to workload clusters, by the kubeconfig Secret of the contract.

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Config, ResourceExt as _};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::task::AbortHandle;

use crate::error::{Doing, Error, Result};

/// A request to a workload cluster that takes longer than this has failed.
const TIMEOUT: Duration = Duration::from_secs(10);

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
    nodes: broadcast::Sender<ClusterKey>,
}

struct Connection {
    /// Of the Secret the connection was made with: another version means another kubeconfig.
    version: Option<String>,
    client: Client,
    nodes: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.nodes.abort();
    }
}

impl Remotes {
    /// No connection is made before somebody asks.
    pub fn new(client: Client) -> Self {
        let (nodes, _) = broadcast::channel(1024);
        Self { client, shared: Arc::new(Shared { connections: Mutex::default(), nodes }) }
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
        let nodes = self.watch_nodes(key.clone(), client.clone());
        let connection = Connection { version: secret.resource_version(), client: client.clone(), nodes };
        self.connections().insert(key, connection);
        Ok(Some(client))
    }

    /// Whether the cluster answers.
    pub async fn probe(&self, namespace: &str, cluster: &str) -> bool {
        match self.client(namespace, cluster).await {
            Ok(Some(client)) => tokio::time::timeout(TIMEOUT, client.apiserver_version())
                .await
                .is_ok_and(|answer| answer.is_ok()),
            _ => false,
        }
    }

    /// Drops the connection, as when the Cluster is gone.
    pub fn forget(&self, key: &ClusterKey) {
        self.connections().remove(key);
    }

    /// Clusters in which a Node has changed.
    pub fn node_changes(&self) -> impl Stream<Item = ClusterKey> + Send + 'static {
        let receiver = self.shared.nodes.subscribe();
        futures::stream::unfold(receiver, |mut receiver| async {
            loop {
                match receiver.recv().await {
                    Ok(key) => return Some((key, receiver)),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        })
    }

    fn watch_nodes(&self, key: ClusterKey, client: Client) -> AbortHandle {
        let changes = self.shared.nodes.clone();
        let task = tokio::spawn(async move {
            let nodes: Api<Node> = Api::all(client);
            let events = watcher(nodes, watcher::Config::default()).default_backoff().touched_objects();
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                if event.is_ok() {
                    // Nobody listening is not an error.
                    _ = changes.send(key.clone());
                }
            }
        });
        task.abort_handle()
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, HashMap<ClusterKey, Connection>> {
        // What is inside is a cache: a panic elsewhere has not broken it.
        self.shared.connections.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

async fn connect(secret: &Secret) -> std::result::Result<Client, BoxError> {
    let bytes = secret.data.as_ref().and_then(|data| data.get("value")).ok_or("it has no key `value`")?;
    let text = std::str::from_utf8(&bytes.0).map_err(|_| "it is not text")?;
    // The parser's own error may quote the file: only its fact is told.
    let kubeconfig = Kubeconfig::from_yaml(text).map_err(|_| "it is not a kubeconfig")?;
    if kubeconfig.auth_infos.iter().filter_map(|user| user.auth_info.as_ref()).any(runs_programs) {
        return Err("it wants to run a program to log in, which is not allowed".into());
    }
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.connect_timeout = Some(TIMEOUT);
    Ok(Client::try_from(config)?)
}

/// A kubeconfig is an object that others write: it must not make this process run anything.
fn runs_programs(user: &kube::config::AuthInfo) -> bool {
    user.exec.is_some() || user.auth_provider.is_some()
}
