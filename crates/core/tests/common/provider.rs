//! Kinds that follow the contract and do nothing by themselves.

use anyhow::Result;
use capstan_testkit::install_crds;
use kube::Client;
use serde_json::{Value, json};

pub(crate) const GROUP_VERSION: &str = "test.cluster.x-k8s.io/v1";
pub(crate) const GROUP: &str = "test.cluster.x-k8s.io";

/// Installs the kinds.
pub(crate) async fn install(client: &Client) -> Result<()> {
    let kinds = ["TestCluster", "TestControlPlane", "TestConfig", "TestMachine", "TestMachinePool"];
    let templates = [
        "TestConfigTemplate",
        "TestMachineTemplate",
        "TestClusterTemplate",
        "TestControlPlaneTemplate",
        "TestMachinePoolTemplate",
    ];
    install_crds(client, &kinds.map(crd)).await?;
    install_crds(client, &templates.map(crd)).await
}

fn crd(kind: &str) -> Value {
    let singular = kind.to_lowercase();
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{singular}s.{GROUP}"),
            "labels": {"cluster.x-k8s.io/v1beta2": "v1"},
        },
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "plural": format!("{singular}s"), "singular": singular},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": anything, "status": anything},
                }},
            }],
        },
    })
}

/// An object with a finalizer, as its provider would have put on it.
pub(crate) fn object(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": GROUP_VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": super::NAMESPACE, "finalizers": ["test.cluster.x-k8s.io/provider"]},
        "spec": {},
    })
}

pub(crate) fn reference(kind: &str, name: &str) -> Value {
    json!({"apiGroup": GROUP, "kind": kind, "name": name})
}
