//! The driver's access to the management plane: credentials, and pinning of host keys.

use capstan_api::infrastructure::Host;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use std::collections::BTreeMap;

/// The values of a Secret.
pub type SecretData = BTreeMap<String, Vec<u8>>;

/// Requests of the driver to the management plane. Errors are for users, without secrets.
pub trait Inventory: Send + Sync + 'static {
    /// The values of a Secret, if it exists.
    fn secret<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<SecretData>, String>>;

    /// Writes the first key of a host into `spec.ssh.hostKeys`, if the host is still the one that was read.
    fn pin<'a>(&'a self, host: &'a Host, key: &'a str) -> BoxFuture<'a, Result<(), String>>;
}

/// The inventory in the API server of a management plane.
#[derive(Clone)]
pub struct PlaneInventory(Client);

impl PlaneInventory {
    /// The inventory of the management plane of `client`.
    pub fn new(client: Client) -> Self {
        Self(client)
    }
}

impl Inventory for PlaneInventory {
    fn secret<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<SecretData>, String>> {
        Box::pin(async move {
            let api: Api<Secret> = Api::namespaced(self.0.clone(), namespace);
            let found = api.get_opt(name).await;
            let found = found.map_err(|error| format!("Secret {name} cannot be read: {error}"))?;
            Ok(found.map(|secret| {
                secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()
            }))
        })
    }

    fn pin<'a>(&'a self, host: &'a Host, key: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let api: Api<Host> = Api::namespaced(self.0.clone(), &host.namespace().unwrap_or_default());
            let patch = json!({
                "metadata": {"resourceVersion": host.resource_version()},
                "spec": {"ssh": {"hostKeys": [key]}},
            });
            match api.patch(&host.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(_) => Ok(()),
                Err(kube::Error::Api(status)) if status.code == 409 => Err(
                    "another client has changed the Host since it was read; the controller checks it again"
                        .to_owned(),
                ),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}
