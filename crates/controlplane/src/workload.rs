//! What this provider asks of the workload cluster.

use capstan_controller::drain::{self, Drain, Outcome};
use capstan_controller::error::{Error, Result};
use capstan_controller::remote::Remotes;
use kube::{Client, ResourceExt as _};
use std::collections::BTreeSet;
use std::future::Future;

use crate::names::CORDONED;

/// A workload cluster, as far as the machines of it are looked after from here.
pub trait Workload: Send + Sync + 'static {
    /// Whether its API server answers through the kubeconfig Secret.
    fn answers(&self, namespace: &str, cluster: &str) -> impl Future<Output = bool> + Send;

    /// Nodes that we keep new pods away from.
    fn cordoned(&self, namespace: &str, cluster: &str) -> impl Future<Output = BTreeSet<String>> + Send;

    /// Goes on with moving pods off a Node.
    fn drain(
        &self,
        namespace: &str,
        cluster: &str,
        drain: Drain<'_>,
    ) -> impl Future<Output = Result<Outcome>> + Send;

    /// Lets pods on a Node again.
    fn uncordon(&self, namespace: &str, cluster: &str, node: &str)
    -> impl Future<Output = Result<()>> + Send;
}

impl Workload for Remotes {
    async fn answers(&self, namespace: &str, cluster: &str) -> bool {
        self.probe(namespace, cluster).await
    }

    async fn cordoned(&self, namespace: &str, cluster: &str) -> BTreeSet<String> {
        let Ok(Some(nodes)) = self.nodes(namespace, cluster).await else { return BTreeSet::new() };
        let marked = nodes.all().into_iter().filter(|node| node.annotations().contains_key(CORDONED));
        marked.map(|node| node.name_any()).collect()
    }

    async fn drain(&self, namespace: &str, cluster: &str, drain: Drain<'_>) -> Result<Outcome> {
        drain::drain(client(self, namespace, cluster).await?, drain).await
    }

    async fn uncordon(&self, namespace: &str, cluster: &str, node: &str) -> Result<()> {
        drain::uncordon(client(self, namespace, cluster).await?, node, CORDONED).await
    }
}

async fn client(remotes: &Remotes, namespace: &str, cluster: &str) -> Result<Client> {
    let client = remotes.client(namespace, cluster).await?;
    client.ok_or_else(|| {
        Error::transient(
            format!("cannot reach Cluster {namespace}/{cluster}"),
            "there is no connection to the workload cluster",
        )
    })
}
