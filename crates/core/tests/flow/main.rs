//! Cluster and Machine against a real API server, with the test playing the providers.

#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]

mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod deletion;
mod machine;
mod resources;

use anyhow::{Result, ensure};
use common::provider::{GROUP_VERSION, reference};
use common::{NAMESPACE, Stage, condition_of, merge, merge_status, until};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};

const CORE: &str = "cluster.x-k8s.io/v1beta2";

fn cluster() -> Value {
    json!({
        "apiVersion": CORE, "kind": "Cluster",
        "metadata": {"name": "demo", "namespace": NAMESPACE},
        "spec": {
            "infrastructureRef": reference("TestCluster", "demo"),
            "controlPlaneRef": reference("TestControlPlane", "demo"),
        },
    })
}

fn machine(name: &str) -> Value {
    json!({
        "apiVersion": CORE, "kind": "Machine",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {
            "clusterName": "demo",
            "version": "v1.36.1",
            "bootstrap": {"configRef": reference("TestConfig", name)},
            "infrastructureRef": reference("TestMachine", name),
            "deletion": {"nodeDeletionTimeoutSeconds": 10},
        },
    })
}

fn at(object: &DynamicObject, pointer: &str) -> Value {
    object.data.pointer(pointer).cloned().unwrap_or_default()
}

fn is(object: &DynamicObject, pointer: &str, expected: &Value) -> Result<()> {
    let found = at(object, pointer);
    ensure!(found == *expected, "{pointer} is {found}, not {expected}");
    Ok(())
}

fn says(object: &DynamicObject, type_: &str, expected: &str) -> Result<()> {
    let found = condition_of(object, type_);
    ensure!(found == expected, "{type_} says {found:?}, not {expected:?}");
    Ok(())
}

fn owned_by(object: &DynamicObject, kind: &str) -> Result<()> {
    ensure!(
        object.owner_references().iter().any(|owner| owner.kind == kind),
        "{:?}",
        object.owner_references()
    );
    ensure!(
        object.labels().get("cluster.x-k8s.io/cluster-name").is_some_and(|name| name == "demo"),
        "no label"
    );
    Ok(())
}

/// Lets go of an object, as its provider would once all behind it is gone.
async fn release(api: &Api<DynamicObject>, name: &str) -> Result<()> {
    until(api, name, "deletion to be asked for", |object| {
        ensure!(object.metadata.deletion_timestamp.is_some(), "nobody has asked");
        Ok(())
    })
    .await?;
    merge(api, name, &json!({"metadata": {"finalizers": null}})).await
}

/// The plane itself plays the workload cluster.
async fn publish_kubeconfig(stage: &Stage) -> Result<()> {
    let kubeconfig = std::fs::read_to_string(stage.plane.kubeconfig())?;
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "demo-kubeconfig", "labels": {"cluster.x-k8s.io/cluster-name": "demo"}},
        "type": "cluster.x-k8s.io/secret",
        "stringData": {"value": kubeconfig},
    }))?;
    Api::namespaced(stage.client.clone(), NAMESPACE).create(&PostParams::default(), &secret).await?;
    Ok(())
}

async fn provision(stage: &Stage) -> Result<()> {
    let infrastructure = stage.api(GROUP_VERSION, "TestCluster");
    let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": "h.example", "port": 6443}}});
    merge(&infrastructure, "demo", &endpoint).await?;
    let domains = json!([{"name": "rack-1", "controlPlane": true}]);
    let status = json!({"initialization": {"provisioned": true}, "failureDomains": domains});
    merge_status(&infrastructure, "demo", &status).await?;
    let initialized = json!({"initialization": {"controlPlaneInitialized": true}, "replicas": 1, "readyReplicas": 1,
        "versions": [{"version": "v1.36.1", "replicas": 1}]});
    merge_status(&stage.api(GROUP_VERSION, "TestControlPlane"), "demo", &initialized).await
}
