//! Requests of this provider to the workload cluster.

use capstan_controller::Knowledge;
use capstan_controller::drain::{self, Drain, Outcome};
use capstan_controller::error::{Doing as _, Error, Result, chain};
use capstan_controller::remote::{LocalVolumes, Remotes};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use std::future::Future;

use crate::marks::Marks;
use crate::names::CORDONED;

pub use capstan_planner::facts::{NodeView, NodesByName};

/// Requests of the control plane provider to a workload cluster.
pub trait Workload: Send + Sync + 'static {
    /// Whether its API server responds, through the kubeconfig Secret.
    fn responds(&self, namespace: &str, cluster: &str) -> impl Future<Output = bool> + Send;

    /// Its Nodes by name. Unknown if the API server does not respond, which does not mean that there are none.
    fn nodes(&self, namespace: &str, cluster: &str) -> impl Future<Output = Knowledge<NodesByName>> + Send;

    /// Volumes that are lost with their Node.
    fn local_volumes(
        &self,
        namespace: &str,
        cluster: &str,
    ) -> impl Future<Output = Knowledge<LocalVolumes>> + Send;

    /// Continues the drain of a Node.
    fn drain(
        &self,
        namespace: &str,
        cluster: &str,
        drain: Drain<'_>,
    ) -> impl Future<Output = Result<Outcome>> + Send;

    /// Uncordons a Node.
    fn uncordon(&self, namespace: &str, cluster: &str, node: &str)
    -> impl Future<Output = Result<()>> + Send;

    /// Makes a Node have these labels and taints, if the Node exists.
    fn mark(
        &self,
        namespace: &str,
        cluster: &str,
        node: &str,
        marks: &Marks,
    ) -> impl Future<Output = Result<()>> + Send;
}

impl Workload for Remotes {
    async fn responds(&self, namespace: &str, cluster: &str) -> bool {
        self.probe(namespace, cluster).await
    }

    async fn nodes(&self, namespace: &str, cluster: &str) -> Knowledge<NodesByName> {
        let nodes = match Self::nodes(self, namespace, cluster).await {
            Ok(nodes) => nodes,
            Err(error) => return Knowledge::Unknown(chain(&error)),
        };
        nodes.map(|nodes| nodes.all().iter().map(|node| (node.name_any(), view(node))).collect())
    }

    async fn local_volumes(&self, namespace: &str, cluster: &str) -> Knowledge<LocalVolumes> {
        Self::local_volumes(self, namespace, cluster).await
    }

    async fn drain(&self, namespace: &str, cluster: &str, drain: Drain<'_>) -> Result<Outcome> {
        drain::drain(client(self, namespace, cluster).await?, drain, self.refusals()).await
    }

    async fn uncordon(&self, namespace: &str, cluster: &str, node: &str) -> Result<()> {
        drain::uncordon(client(self, namespace, cluster).await?, node, CORDONED).await
    }

    async fn mark(&self, namespace: &str, cluster: &str, node: &str, marks: &Marks) -> Result<()> {
        let Knowledge::Known(nodes) = Self::nodes(self, namespace, cluster).await? else { return Ok(()) };
        let patch = nodes.by_name(node).and_then(|node| marks.patch(&node));
        let Some(patch) = patch else { return Ok(()) };
        let nodes: Api<Node> = Api::all(client(self, namespace, cluster).await?);
        let patched = nodes.patch(node, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.map(|_| ()).doing(|| format!("cannot write labels and taints of Node {node}"))
    }
}

fn view(node: &Node) -> NodeView {
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let info = status.and_then(|status| status.node_info.as_ref());
    NodeView {
        ready: conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        cordoned: node.annotations().contains_key(CORDONED),
        boot_id: info.map(|info| info.boot_id.clone()).filter(|id| !id.is_empty()),
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
