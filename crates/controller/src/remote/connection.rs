//! One connection: the client, and the two tasks that live as long as it does.

use k8s_openapi::api::core::v1::Secret;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;

use super::health::{Health, Prober};
use super::nodes::{NodeWatch, Nodes};
use super::{ClusterKey, Signals};

/// A request to a workload cluster that cannot connect for longer than this has failed.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Connection {
    /// Of the Secret the connection was made with: another version means another kubeconfig.
    pub(super) version: Option<String>,
    pub(super) client: Client,
    prober: Arc<Prober>,
    nodes: Arc<NodeWatch>,
    tasks: [AbortHandle; 2],
}

impl Connection {
    pub(super) fn open(key: ClusterKey, version: Option<String>, client: Client, signals: Signals) -> Self {
        let prober = Arc::new(Prober::default());
        let nodes = Arc::new(NodeWatch::default());
        let probing = prober.clone().run(key.clone(), client.clone(), signals.clone());
        let watching = nodes.clone().run(key, client.clone(), signals);
        let tasks = [tokio::spawn(probing).abort_handle(), tokio::spawn(watching).abort_handle()];
        Self { version, client, prober, nodes, tasks }
    }

    pub(super) fn health(&self) -> Health {
        self.prober.health()
    }

    pub(super) fn nodes(&self) -> Option<Nodes> {
        self.nodes.nodes()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub(super) async fn connect(secret: &Secret) -> Result<Client, BoxError> {
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
