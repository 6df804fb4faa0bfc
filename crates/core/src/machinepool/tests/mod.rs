//! A MachinePool's decisions and status, as tables, and what they are made of.

mod delete;
mod machines;
mod nodes;
mod provision;
mod status;

use capstan_api::core::{Cluster, Machine, MachinePool};
use capstan_controller::Knowledge;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;

use super::observe::Observed;
use crate::external::Reading;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);
/// Ten seconds before `NOW`.
const BEFORE: &str = "2027-01-15T07:59:50Z";

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, change) => into.clone_from(change),
    }
}

/// The pool `p` of Cluster `c` with three machines, and a change.
fn pool(change: &Value) -> MachinePool {
    let mut pool = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
        "metadata": {"name": "p", "namespace": "n", "uid": "pool-uid"},
        "spec": {
            "clusterName": "c", "replicas": 3,
            "template": {
                "metadata": {"labels": {"tier": "spot"}, "annotations": {"team": "shop"}},
                "spec": {
                    "clusterName": "c",
                    "bootstrap": {"configRef": {"apiGroup": "b", "kind": "Config", "name": "p"}},
                    "infrastructureRef": {"apiGroup": "i", "kind": "Pool", "name": "p"},
                },
            },
        },
    });
    merge(&mut pool, change);
    read(pool)
}

fn deleted(change: &Value) -> MachinePool {
    let mut pool = pool(change);
    pool.metadata.deletion_timestamp = Some(read(json!(BEFORE)));
    pool
}

fn object(kind: &str, change: &Value) -> DynamicObject {
    let mut object = json!({"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "p"}});
    merge(&mut object, change);
    read(object)
}

fn found(kind: &str, change: &Value) -> Reading {
    Reading::Found(Box::new(object(kind, change)))
}

/// A Node that has been ready for ten seconds.
fn node(name: &str, provider_id: &str, change: &Value) -> Arc<Node> {
    let mut node = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "7"},
        "spec": {"providerID": provider_id},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": BEFORE}],
            "nodeInfo": {"kubeletVersion": "v1.36.1", "architecture": "", "bootID": "", "containerRuntimeVersion": "",
                "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
                "systemUUID": ""},
        },
    });
    merge(&mut node, change);
    Arc::new(read(node))
}

/// The Machine of a machine of the pool, and a change.
fn machine(name: &str, change: &Value) -> Machine {
    let owner = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "name": "p", "uid": "pool-uid",
        "controller": true}]);
    let mut machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": name, "namespace": "n", "uid": format!("uid-{name}"), "ownerReferences": owner,
            "labels": {"cluster.x-k8s.io/pool-name": "p", "cluster.x-k8s.io/cluster-name": "c"}},
        "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": ""},
            "infrastructureRef": {"apiGroup": "i", "kind": "Instance", "name": name}},
    });
    merge(&mut machine, change);
    read(machine)
}

fn cluster() -> Cluster {
    read(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "n", "uid": "cluster-uid"},
        "spec": {"infrastructureRef": {"apiGroup": "i", "kind": "Infra", "name": "c"}},
    }))
}

/// A pool without Machines, whose objects are there and whose cluster has no Nodes.
fn observed() -> Observed {
    Observed {
        cluster: cluster(),
        bootstrap: found("Config", &json!({})),
        infrastructure: found("Pool", &json!({})),
        machine_kind: None,
        infrastructure_machines: Knowledge::unknown("no kind"),
        machines: Knowledge::Known(vec![]),
        nodes: Knowledge::Known(vec![]),
        matched: None,
    }
}
