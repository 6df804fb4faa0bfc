//! The administrator's kubeconfig.

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use std::path::Path;

use super::pki::{Pki, write_secret};

/// Writes the kubeconfig. Only its owner can read it, because it contains a key.
pub(super) fn write(path: &Path, address: &str, pki: &Pki) -> Result<()> {
    let encoded = |pem: &str| BASE64_STANDARD.encode(pem);
    // JSON is YAML: every reader of kubeconfigs takes it.
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "capstan", "cluster": {
            "server": format!("https://{address}"),
            "certificate-authority-data": encoded(&pki.authority.certificate),
        }}],
        "users": [{"name": "admin", "user": {
            "client-certificate-data": encoded(&pki.admin.certificate),
            "client-key-data": encoded(&pki.admin.key),
        }}],
        "contexts": [{"name": "capstan", "context": {"cluster": "capstan", "user": "admin"}}],
        "current-context": "capstan",
    });
    let text = serde_json::to_string_pretty(&kubeconfig).context("cannot write a kubeconfig")?;
    write_secret(path, &text)
}
