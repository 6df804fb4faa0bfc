//! The running API server of a workload cluster, and the requests that nodes make to it.

use capstan_apiserver::{ApiServer, Options, Storage, User};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::Value;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;

use super::config::{NodeFacts, Start};
use super::objects::{self, COMPONENTS};
use super::tls;
use crate::vm::state::K3sRole;

pub(super) struct Running {
    server: Arc<ApiServer>,
    client: Client,
}

impl Running {
    /// Serves the objects in `folder` on the port of the cluster.
    pub(super) async fn start(folder: &Path, start: &Start, address: IpAddr) -> Result<Self, String> {
        let authorities = start.authorities.as_ref().ok_or("only a server can serve")?;
        let tls = tls::serving(authorities)?;
        let port = start.port;
        let listener = TcpListener::bind((address, port))
            .await
            .map_err(|error| format!("listen tcp {address}:{port}: {error}"))?;
        let mut options = Options::new(Storage::Folder(folder.join("objects")));
        options.version.clone_from(&start.node.version);
        let text_of = |error: &dyn std::error::Error| capstan_controller::error::chain(error);
        let server = ApiServer::open(options).await.map_err(|error| text_of(&error))?;
        server.serve(listener, &tls).map_err(|error| text_of(&error))?;
        let client = Client::new(server.service(User::admin()), "default");
        Ok(Self { server, client })
    }

    /// A client for it that needs no socket.
    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// A kubelet starts: its Node is registered once and then kept up to date.
    pub(super) async fn register(&self, facts: &NodeFacts, kind: K3sRole) -> Result<(), String> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let failed = |error: kube::Error| format!("cannot register Node {}: {error}", facts.name);
        let found = nodes.get_opt(&facts.name).await.map_err(failed)?;
        let is_same =
            |node: &Node| node.spec.as_ref().and_then(|spec| spec.provider_id.clone()) == facts.provider_id;
        let found = match found {
            // A namesake from an earlier life: the machine is another one, and so is its Node.
            Some(other) if !is_same(&other) => {
                nodes.delete(&facts.name, &DeleteParams::default()).await.map_err(failed)?;
                None
            }
            found => found,
        };
        if found.is_none() {
            let node = typed(objects::node(facts, kind))?;
            nodes.create(&PostParams::default(), &node).await.map_err(failed)?;
        }
        let now = Timestamp::now();
        let status = objects::up(facts, now);
        nodes
            .patch_status(&facts.name, &PatchParams::default(), &Patch::Merge(&status))
            .await
            .map_err(failed)?;
        if kind == K3sRole::Server {
            self.show_components(facts, now).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn show_components(&self, facts: &NodeFacts, now: Timestamp) -> Result<(), kube::Error> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "kube-system");
        for component in COMPONENTS {
            let pod = objects::pod(component, facts);
            let name = format!("{component}-{}", facts.name);
            let Ok(pod) = typed(pod) else { continue };
            match pods.create(&PostParams::default(), &pod).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                made => _ = made?,
            }
            let status = objects::pod_up(component, now);
            pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
        }
        Ok(())
    }

    /// A kubelet stops. Its Node stays until somebody deletes it, as nobody can tell whether it will be back.
    pub(super) async fn leave(&self, node: &str, kind: K3sRole, for_good: bool) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let status = objects::down(Timestamp::now());
        let patched = nodes.patch_status(node, &PatchParams::default(), &Patch::Merge(&status)).await;
        if let Err(error) = patched {
            tracing::debug!(node, %error, "cannot mark the Node as not Ready");
        }
        if for_good && kind == K3sRole::Server {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), "kube-system");
            for component in COMPONENTS {
                // Gone already is as good.
                let _ = pods
                    .delete(&format!("{component}-{node}"), &DeleteParams::default().grace_period(0))
                    .await;
            }
        }
    }

    /// Whether it answers.
    pub(super) async fn is_ready(&self) -> bool {
        self.client.apiserver_version().await.is_ok()
    }

    pub(super) async fn stop(self) {
        drop(self.client);
        self.server.shutdown().await;
    }
}

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("an object of our own is none: {error}"))
}
