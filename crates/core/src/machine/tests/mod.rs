//! A Machine's decisions, as tables, and what they are made of. Those of its deletion and of its Node's metadata stand
//! beside them.

mod node;
mod provision;
mod summary;

use capstan_api::conditions::{Condition, NewCondition, get, set};
use capstan_api::core::{Cluster, Machine};
use capstan_controller::remote::Health;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::sync::Arc;

use super::observe::{NodeReading, Observed};
use crate::external::Reading;

pub(super) const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

pub(super) fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

pub(super) fn machine(metadata: &Value, status: &Value) -> Machine {
    let mut metadata = metadata.clone();
    metadata["name"] = json!("m");
    metadata["namespace"] = json!("n");
    metadata["uid"] = json!("machine-uid");
    read(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": metadata,
        "spec": {
            "clusterName": "c", "version": "v1.36.1",
            "bootstrap": {"configRef": {"apiGroup": "b", "kind": "Config", "name": "m"}},
            "infrastructureRef": {"apiGroup": "i", "kind": "Host", "name": "m"},
        },
        "status": status,
    }))
}

fn plain() -> Machine {
    machine(&json!({}), &json!({}))
}

fn object(value: &Value) -> DynamicObject {
    let mut object = json!({"apiVersion": "x/v1", "kind": "Config", "metadata": {"name": "m"}});
    object.as_object_mut().expect("an object").extend(value.as_object().cloned().unwrap_or_default());
    read(object)
}

fn found(value: &Value) -> Reading {
    Reading::Found(Box::new(object(value)))
}

fn cluster(is_initialized: bool) -> Cluster {
    let mut cluster: Cluster = read(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "n", "uid": "cluster-uid"},
        "spec": {"controlPlaneRef": {"apiGroup": "p", "kind": "Plane", "name": "c"}},
        "status": {"initialization": {"infrastructureProvisioned": true}},
    }));
    if is_initialized {
        set(&mut cluster, NewCondition::new("ControlPlaneInitialized", true, "Initialized"), NOW);
    }
    cluster
}

fn observed() -> Observed {
    Observed {
        cluster: cluster(true),
        set: None,
        deployment: None,
        bootstrap: found(&json!({})),
        infrastructure: found(&json!({})),
        health: Health { last_success: Some(NOW), failures: 0, failing: None },
        update: None,
    }
}

fn condition_of<'a>(machine: &'a Machine, type_: &str) -> (String, &'a str, &'a str) {
    let condition: &Condition = get(machine, type_).unwrap_or_else(|| panic!("no {type_}"));
    (condition.status.to_string(), &condition.reason, &condition.message)
}

fn says(machine: &Machine, type_: &str, status: &str, reason: &str, message: &str) {
    assert_eq!(condition_of(machine, type_), (status.to_owned(), reason, message), "{type_}");
}

fn healthy_node() -> NodeReading {
    let good =
        |type_: &str| json!({"type": type_, "status": if type_ == "Ready" { "True" } else { "False" }});
    let conditions = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"].map(good);
    NodeReading::Found(Arc::new(read::<Node>(
        json!({"metadata": {"name": "node"}, "status": {"conditions": conditions}}),
    )))
}
