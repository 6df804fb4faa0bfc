//! Kubeconfig files with embedded certificates, so that they can be copied.

use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::pki::{Identity, write};

/// Writes a kubeconfig with one cluster and one user.
pub(crate) fn write_kubeconfig(path: &Path, server: &str, authority: &str, user: &Identity) -> Result<()> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "plane",
        "clusters": [{
            "name": "plane",
            "cluster": { "server": server, "certificate-authority-data": base64(authority)? },
        }],
        "users": [{
            "name": "user",
            "user": {
                "client-certificate-data": base64(&user.certificate)?,
                "client-key-data": base64(&user.key)?,
            },
        }],
        "contexts": [{ "name": "plane", "context": { "cluster": "plane", "user": "user" } }],
    });
    write(path, &format!("{config:#}\n"))
}

/// A client for the kubeconfig at `path`.
pub async fn client(path: &Path) -> Result<kube::Client> {
    let read = async || -> Result<kube::Client> {
        let kubeconfig = Kubeconfig::read_from(path)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(kube::Client::try_from(config)?)
    };
    read().await.with_context(|| format!("cannot make a client from {}", path.display()))
}

fn base64(text: &str) -> Result<Value> {
    serde_json::to_value(ByteString(text.as_bytes().to_vec())).context("cannot encode a certificate")
}
