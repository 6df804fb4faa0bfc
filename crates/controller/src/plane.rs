//! The identity of this management plane, independent of its address. It distinguishes a cluster that was moved here
//! from one that was created here.

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::ResourceExt as _;
use kube::api::Api;
use tokio::sync::OnceCell;

use crate::error::{Doing as _, Error, Result};

/// The namespace whose UID names a cluster. Every plane has it, nobody can delete it, and a backup keeps it.
const NAMESPACE: &str = "kube-system";

/// The name of the management plane of a client. Read once.
pub struct PlaneName {
    client: Client,
    known: OnceCell<String>,
}

impl PlaneName {
    /// The name of the plane of `client`.
    pub fn of(client: Client) -> Self {
        Self { client, known: OnceCell::new() }
    }

    /// The name.
    ///
    /// # Errors
    /// If the plane does not respond, or the manager may not read the namespace `kube-system`.
    pub async fn get(&self) -> Result<&str> {
        let ask = async || {
            let api: Api<Namespace> = Api::all(self.client.clone());
            let doing = || format!("cannot read Namespace {NAMESPACE}, whose UID names this plane");
            let found = api.get(NAMESPACE).await.doing(doing)?;
            found.uid().ok_or_else(|| Error::transient(doing(), "it has none"))
        };
        self.known.get_or_try_init(ask).await.map(String::as_str)
    }
}

/// How the bootstrap Secret of a machine requests that the agent on the machine is handed over to this plane. Bootstrap
/// providers with such an agent write it. Infrastructure providers that can reach a bootstrapped machine deliver it. A
/// Secret without the label requests nothing.
pub mod hand_over {
    /// Label of the bootstrap Secret.
    pub const LABEL: &str = "capstan.dev/follow";
    /// Key in the bootstrap Secret: standard input for `capstan-agent follow`.
    pub const KEY: &str = "follow";
}
