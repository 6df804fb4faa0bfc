//! MachineDeployments for tests.

use capstan_api::core::MachineDeployment;
use serde_json::{Value, json};

use crate::machineset::fixtures::merge;

/// A MachineDeployment of Cluster `c`, like [`crate::machineset::fixtures::machine_set`], changed by `fields`.
pub(crate) fn deployment(fields: &Value) -> MachineDeployment {
    let mut value = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {"name": "md", "namespace": "ns", "uid": "uid-md", "annotations": {}},
        "spec": {
            "clusterName": "c", "replicas": 3, "selector": {"matchLabels": {"a": "b"}},
            "rollout": {"strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "clusterName": "c", "version": "v1.34.0",
                    "bootstrap": {"configRef":
                        {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "ConfigTemplate", "name": "t"}},
                    "infrastructureRef":
                        {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "InfraTemplate", "name": "t"},
                },
            },
        },
    });
    merge(&mut value, fields);
    serde_json::from_value(value).expect("a test value")
}
