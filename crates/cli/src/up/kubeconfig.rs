//! The administrator's kubeconfig.

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_pki::issue::Identity;
use serde_json::json;

/// A kubeconfig for the plane at this URL. It holds a private key.
pub(crate) fn text(server: &str, bundle: &str, user: &Identity) -> Result<String> {
    let encoded = |pem: &str| BASE64_STANDARD.encode(pem);
    // JSON is YAML: every reader of kubeconfigs takes it.
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "capstan", "cluster": {
            "server": server,
            "certificate-authority-data": encoded(bundle),
        }}],
        "users": [{"name": "admin", "user": {
            "client-certificate-data": encoded(&user.certificate),
            "client-key-data": encoded(&user.key),
        }}],
        "contexts": [{"name": "capstan", "context": {"cluster": "capstan", "user": "admin"}}],
        "current-context": "capstan",
    });
    serde_json::to_string_pretty(&kubeconfig).context("cannot write a kubeconfig")
}
