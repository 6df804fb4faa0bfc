//! What clusterctl asks of cert-manager, for those who have none.
//!
//! Before it installs anything, clusterctl makes an Issuer and a Certificate and takes them away again, whether anybody
//! needs them or not. Nothing of Capstan does. With these two kinds it is content; nobody acts on them, and cert-manager
//! itself, if it comes later, replaces them.

use serde_json::{Value, json};

/// The two kinds.
pub fn cert_manager_kinds() -> Vec<Value> {
    [("Issuer", "issuers", "issuer"), ("Certificate", "certificates", "certificate")].map(kind).into()
}

fn kind((kind, plural, singular): (&str, &str, &str)) -> Value {
    let group = "cert-manager.io";
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "names": { "kind": kind, "plural": plural, "singular": singular },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": {
                    "description": "Stands in for cert-manager's kind, so that clusterctl can look for it. Nobody acts on it.",
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    })
}
