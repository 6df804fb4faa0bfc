//! A Cluster's decisions, as tables, and what they are made of.

mod delete;
mod handoff;
mod status;

use capstan_api::conditions::{Condition, get};
use capstan_api::core::{Cluster, Machine, MachineDeployment};
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::observe::{Descendants, Observed};
use crate::external::Reading;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

fn cluster(spec: &Value) -> Cluster {
    read(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "n", "uid": "u"}, "spec": spec,
    }))
}

fn with_both() -> Cluster {
    cluster(&json!({
        "infrastructureRef": {"apiGroup": "i", "kind": "Infra", "name": "c"},
        "controlPlaneRef": {"apiGroup": "p", "kind": "Plane", "name": "c"},
    }))
}

fn deleting(mut cluster: Cluster) -> Cluster {
    cluster.metadata.deletion_timestamp = Some(read(json!("2025-01-01T00:00:00Z")));
    cluster
}

fn found(mut object: Value) -> Reading {
    object["apiVersion"] = json!("x/v1");
    object["kind"] = json!("Infra");
    if object["metadata"].is_null() {
        object["metadata"] = json!({"name": "c"});
    }
    Reading::Found(Box::new(read::<DynamicObject>(object)))
}

fn machine(name: &str, control_plane: bool, direct: bool) -> Machine {
    let label = if control_plane { json!({"cluster.x-k8s.io/control-plane": ""}) } else { json!({}) };
    let owner =
        json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "u"}]);
    read(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": name, "labels": label, "ownerReferences": if direct { owner } else { json!([]) }},
        "spec": {"clusterName": "c", "bootstrap": {}, "version": "v1.36.1",
            "infrastructureRef": {"apiGroup": "i", "kind": "I", "name": "i"}},
    }))
}

fn deployment(name: &str) -> MachineDeployment {
    read(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {"name": name, "ownerReferences":
            [{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "c", "uid": "u"}]},
        "spec": {"clusterName": "c", "replicas": 2, "selector": {}, "template": {"spec": {"clusterName": "c",
            "bootstrap": {}, "infrastructureRef": {"apiGroup": "i", "kind": "I", "name": "i"}}}},
        "status": {"replicas": 1, "versions": [{"version": "v1.35.0", "replicas": 1}]},
    }))
}

fn observed(descendants: Descendants) -> Observed {
    Observed { descendants: Some(descendants), ..Observed::default() }
}

fn condition_of<'a>(cluster: &'a Cluster, type_: &str) -> &'a Condition {
    get(cluster, type_).unwrap_or_else(|| panic!("no {type_}"))
}
