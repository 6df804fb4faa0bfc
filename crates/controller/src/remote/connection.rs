//! One connection: the client, and the two tasks that live as long as it does.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;

use super::health::{Health, Prober};
use super::nodes::{NodeWatch, Nodes};
use super::request_timeout::{REQUEST_TIMEOUT, RequestTimeout};
use super::response_fixes::ResponseFixes;
use super::{ClusterKey, Signals};
use crate::knowledge::Knowledge;
use crate::text::rfc3339;

/// Nodes are known as long as the last probe that was answered is no older than this: two probes were missed.
const FRESH: SignedDuration = SignedDuration::from_secs(30);

/// The kubeconfig of a cluster that answers is compared with its Secret this often.
const COMPARED_AGAIN: Duration = Duration::from_secs(10);

/// A request to a workload cluster that cannot connect for longer than this has failed.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Connection {
    /// The kubeconfig that the connection was made with. Another resource version of the Secret alone is no reason to
    /// connect again: Nodes would be unknown until the next list.
    pub(super) kubeconfig: Vec<u8>,
    pub(super) client: Client,
    /// The version of the Secret that has this kubeconfig.
    pub(super) version: Option<String>,
    /// When the kubeconfig was last compared with its Secret.
    pub(super) checked: Instant,
    prober: Arc<Prober>,
    nodes: Arc<NodeWatch>,
    tasks: [AbortHandle; 2],
}

impl Connection {
    pub(super) fn open(key: ClusterKey, kubeconfig: Vec<u8>, client: Client, signals: Signals) -> Self {
        let prober = Arc::new(Prober::default());
        let nodes = Arc::new(NodeWatch::default());
        let probing = prober.clone().run(key.clone(), client.clone(), signals.clone());
        let watching = nodes.clone().run(key, client.clone(), signals);
        let tasks = [tokio::spawn(probing).abort_handle(), tokio::spawn(watching).abort_handle()];
        Self { kubeconfig, client, version: None, checked: Instant::now(), prober, nodes, tasks }
    }

    /// Whether the kubeconfig need not be compared with its Secret: the cached Secret has the same resource version, or the last
    /// comparison was a moment ago and the cluster responds.
    pub(super) fn is_current(&self, version: Option<&str>) -> bool {
        match version {
            Some(_) => self.version.as_deref() == version,
            None => self.checked.elapsed() < COMPARED_AGAIN && self.health().failures == 0,
        }
    }

    pub(super) fn health(&self) -> Health {
        self.prober.health()
    }

    /// The Nodes; unknown while the API server does not respond, because the last state of an interrupted watch may be stale.
    pub(super) fn nodes(&self, now: Timestamp) -> Knowledge<Nodes> {
        let health = self.health();
        match self.nodes.nodes() {
            None => Knowledge::unknown("the Nodes of the workload cluster have not been listed yet"),
            Some(_) if !health.answered_within(FRESH, now) => Knowledge::unknown(match health.last_success {
                Some(time) => format!("the workload cluster has not answered since {}", rfc3339(time)),
                None => "the workload cluster has not answered yet".to_owned(),
            }),
            Some(nodes) => Knowledge::Known(nodes),
        }
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

/// The kubeconfig in a Secret.
pub(super) fn kubeconfig(secret: &Secret) -> Option<&[u8]> {
    secret.data.as_ref()?.get("value").map(|bytes| bytes.0.as_slice())
}

pub(super) async fn connect(kubeconfig: Option<&[u8]>) -> Result<Client, BoxError> {
    let text =
        std::str::from_utf8(kubeconfig.ok_or("it has no key `value`")?).map_err(|_| "it is not text")?;
    // The parser's error may quote the file, so it is not part of the message.
    let kubeconfig = Kubeconfig::from_yaml(text).map_err(|_| "it is not a kubeconfig")?;
    if kubeconfig.auth_infos.iter().filter_map(|user| user.auth_info.as_ref()).any(runs_programs) {
        return Err("it wants to run a program to log in, which is not allowed".into());
    }
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.connect_timeout = Some(TIMEOUT);
    Ok(ClientBuilder::try_from(config)?
        .with_layer(&ResponseFixes)
        .with_layer(&RequestTimeout(REQUEST_TIMEOUT))
        .build())
}

/// Other clients write the Secret: a kubeconfig must not make this process run a program.
fn runs_programs(user: &kube::config::AuthInfo) -> bool {
    user.exec.is_some() || user.auth_provider.is_some()
}
