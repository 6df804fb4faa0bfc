//! Fields in which anything may stand keep it as it came, also what a fixture cannot hold because an API server
//! would change or refuse it.

#![cfg(test)]

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::core::{Cluster, ClusterClass};
use capstan_api::runtime::ExtensionConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn survives<K: Serialize + DeserializeOwned>(object: &Value) -> K {
    let typed: K = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&typed).unwrap(), object);
    typed
}

fn values() -> [Value; 7] {
    [json!(null), json!(0), json!(1.5), json!(""), json!([]), json!({}), json!({"a": [null]})]
}

#[test]
fn values_of_variables() {
    for value in values() {
        survives::<Cluster>(&json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "metadata": {"name": "shop"},
            "spec": {"topology": {
                "classRef": {"name": "metal"},
                "version": "v1.36.0",
                "variables": [{"name": "any", "value": value}],
            }},
        }));
    }
}

#[test]
fn settings_of_a_distribution() {
    for value in values() {
        survives::<CapstanConfig>(&json!({
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha1",
            "kind": "CapstanConfig",
            "metadata": {"name": "shop"},
            "spec": {"distro": "k3s", "settings": {"any": value}},
        }));
    }
}

#[test]
fn schemas_of_variables_below_the_first_level() {
    let template =
        |kind: &str| json!({"templateRef": {"apiVersion": "x.io/v1", "kind": kind, "name": "metal"}});
    survives::<ClusterClass>(&json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "ClusterClass",
        "metadata": {"name": "metal"},
        "spec": {
            "infrastructure": template("HostClusterTemplate"),
            "controlPlane": template("CapstanControlPlaneTemplate"),
            "variables": [{
                "name": "odd",
                "required": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"a": {"type": "no such type", "minimum": 0.5, "title": "not in the subset"}},
                    "additionalProperties": true,
                    "enum": ["a", 1, null, {"b": []}],
                }},
            }],
        },
    }));
}

#[test]
fn certificates_are_bytes() {
    let config = survives::<ExtensionConfig>(&json!({
        "apiVersion": "runtime.cluster.x-k8s.io/v1beta2",
        "kind": "ExtensionConfig",
        "metadata": {"name": "in-place"},
        "spec": {"clientConfig": {"url": "https://extension.example.com", "caBundle": "UEVN"}},
    }));
    assert_eq!(config.spec.client_config.ca_bundle.unwrap().0, b"PEM");
}
