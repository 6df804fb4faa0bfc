//! What clusterctl finds in the place of cert-manager where nobody has it.
//!
//! Before it installs anything, clusterctl makes an Issuer and a Certificate and takes them away again, and it waits for
//! that to work even where cert-manager is said to be somebody else's business. Nothing of ours needs a certificate of
//! cert-manager's. So the release brings the two kinds, without anybody who would look after them. clusterctl installs
//! them only where the real ones are missing, and as a version that any real one replaces (`clusterctl upgrade apply`).

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
