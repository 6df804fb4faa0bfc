//! `capstan get kubeconfig`: prints the kubeconfig of a workload cluster.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use std::io::Write as _;

use crate::client::{ASKING, Place};
use crate::progress::waiting;

pub(crate) async fn run(place: &Place, cluster: &str) -> Result<()> {
    let kubeconfig = waiting(ASKING, read(&place.client, &place.namespace, cluster)).await?;
    std::io::stdout().write_all(&kubeconfig).map_err(Into::into)
}

/// The kubeconfig of a workload cluster, from the Secret of its control plane provider.
pub(crate) async fn read(client: &Client, namespace: &str, cluster: &str) -> Result<Vec<u8>> {
    let name = format!("{cluster}-kubeconfig");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = secrets
        .get_opt(&name)
        .await
        .with_context(|| format!("cannot read Secret {namespace}/{name}"))?
        .with_context(|| {
            format!(
                "there is no Secret {name} in namespace {namespace}: either there is no such cluster, or its \
                 control plane has not got that far (see `capstan describe cluster {cluster} -n {namespace}`)"
            )
        })?;
    let mut data = secret.data.unwrap_or_default();
    let kubeconfig =
        data.remove("value").with_context(|| format!("Secret {namespace}/{name} has no key `value`"))?;
    Ok(kubeconfig.0)
}
