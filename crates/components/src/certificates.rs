//! The CRDs that clusterctl finds in place of cert-manager, if cert-manager is not installed.
//!
//! Before it installs anything, clusterctl creates an Issuer and a Certificate and deletes them again. It waits until
//! that works, even if it is configured not to install cert-manager. Capstan needs no certificate from cert-manager. So
//! the release contains the two CRDs, without a controller for them. clusterctl installs them only if the real ones are
//! missing, with a version that any real version replaces (`clusterctl upgrade apply`).

use serde_json::{Value, json};

/// Older than any cert-manager there has been.
pub(crate) const VERSION: &str = "v0.0.0";

/// Where it lies in the repository.
pub(crate) fn path() -> String {
    format!("cert-manager/{VERSION}/cert-manager.yaml")
}

/// The two kinds that clusterctl looks for.
pub(crate) fn kinds() -> Vec<Value> {
    [("Issuer", "issuer"), ("Certificate", "certificate")].map(|(kind, name)| definition(kind, name)).to_vec()
}

fn definition(kind: &str, singular: &str) -> Value {
    const GROUP: &str = "cert-manager.io";
    let schema = json!({
        "type": "object",
        "description": "Only here so that clusterctl finds this kind: no controller reconciles its objects.",
        "x-kubernetes-preserve-unknown-fields": true,
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{singular}s.{GROUP}") },
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": format!("{singular}s"),
                "singular": singular,
            },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}
