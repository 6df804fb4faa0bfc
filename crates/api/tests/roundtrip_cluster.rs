//! Cluster and ClusterClass keep every field of the wire through a read and a write, and add nothing.

#![allow(clippy::unwrap_used)]

use capstan_api::core::{Cluster, ClusterClass};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[test]
fn a_full_cluster_survives() {
    survives::<Cluster>(&json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "shop", "namespace": "prod"},
        "spec": full_cluster_spec(),
        "status": full_cluster_status(),
    }));
}

#[test]
fn a_full_clusterclass_survives() {
    survives::<ClusterClass>(&json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "ClusterClass",
        "metadata": {"name": "metal", "namespace": "prod"},
        "spec": full_class_spec(),
        "status": {
            "conditions": [condition("VariablesReady")],
            "variables": [{
                "name": "mirror",
                "definitionsConflict": false,
                "definitions": [{
                    "from": "inline",
                    "required": false,
                    "deprecatedV1Beta1Metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                    "schema": {"openAPIV3Schema": {"type": "string"}},
                }],
            }],
            "observedGeneration": 3,
            "deprecated": {"v1beta1": {"conditions": [v1beta1_condition()]}},
        },
    }));
}

#[test]
fn schemas_below_the_first_level_are_kept_as_they_came() {
    let mut class = smallest_class();
    class["spec"]["variables"] = json!([{
        "name": "odd",
        "required": true,
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "properties": {"a": {"type": "no such type", "minimum": 0.5, "title": "not in the subset"}},
            "additionalProperties": true,
        }},
    }]);
    survives::<ClusterClass>(&class);
}

#[test]
fn values_of_variables_may_be_anything() {
    for value in [json!(null), json!(0), json!(1.5), json!(""), json!([]), json!({}), json!({"a": [null]})] {
        let mut cluster = smallest_cluster();
        cluster["spec"]["topology"]["variables"] = json!([{"name": "any", "value": value}]);
        survives::<Cluster>(&cluster);
    }
}

#[test]
fn what_is_not_set_is_not_written() {
    for written in [rewritten::<Cluster>(&smallest_cluster()), rewritten::<ClusterClass>(&smallest_class())] {
        assert!(!has_empty(&written), "{written:#}");
    }
    survives::<Cluster>(&smallest_cluster());
    survives::<ClusterClass>(&smallest_class());
}

fn survives<K: Serialize + DeserializeOwned>(object: &Value) {
    assert_eq!(&rewritten::<K>(object), object);
}

fn rewritten<K: Serialize + DeserializeOwned>(object: &Value) -> Value {
    serde_json::to_value(serde_json::from_value::<K>(object.clone()).unwrap()).unwrap()
}

fn has_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty() || items.iter().any(has_empty),
        Value::Object(fields) => fields.is_empty() || fields.values().any(has_empty),
    }
}

fn smallest_cluster() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "shop"},
        "spec": {"topology": {"classRef": {"name": "metal"}, "version": "v1.36.0"}},
    })
}

fn smallest_class() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "ClusterClass",
        "metadata": {"name": "metal"},
        "spec": {
            "infrastructure": {"templateRef": template("HostClusterTemplate")},
            "controlPlane": {"templateRef": template("CapstanControlPlaneTemplate")},
        },
    })
}

fn full_cluster_spec() -> Value {
    json!({
        "paused": true,
        "clusterNetwork": {
            "apiServerPort": 6443,
            "services": {"cidrBlocks": ["10.96.0.0/12"]},
            "pods": {"cidrBlocks": ["10.244.0.0/16", "fd00:10::/64"]},
            "serviceDomain": "cluster.local",
        },
        "controlPlaneEndpoint": {"host": "shop.example.com", "port": 6443},
        "controlPlaneRef": reference("controlplane", "CapstanControlPlane"),
        "infrastructureRef": reference("infrastructure", "HostCluster"),
        "topology": {
            "classRef": {"name": "metal", "namespace": "classes"},
            "version": "v1.36.0",
            "controlPlane": {
                "metadata": metadata(),
                "replicas": 3,
                "rollout": {"after": "2026-01-02T03:04:05Z"},
                "healthCheck": {
                    "enabled": true,
                    "checks": checks(),
                    "remediation": {"triggerIf": trigger_if(), "templateRef": template("FixTemplate")},
                },
                "deletion": deletion(),
                "taints": taints(),
                "readinessGates": gates(),
                "variables": overrides(),
            },
            "workers": {
                "machineDeployments": [{
                    "metadata": metadata(),
                    "class": "worker",
                    "name": "md-0",
                    "failureDomain": "rack-1",
                    "replicas": 0,
                    "healthCheck": {
                        "enabled": false,
                        "checks": checks(),
                        "remediation": worker_remediation(),
                    },
                    "deletion": worker_deletion(),
                    "taints": taints(),
                    "minReadySeconds": 0,
                    "readinessGates": gates(),
                    "rollout": {"after": "2026-01-02T03:04:05Z", "strategy": strategy()},
                    "variables": overrides(),
                }],
                "machinePools": [{
                    "metadata": metadata(),
                    "class": "pool",
                    "name": "mp-0",
                    "failureDomains": ["rack-1", "rack-2"],
                    "deletion": deletion(),
                    "taints": taints(),
                    "minReadySeconds": 5,
                    "replicas": 2,
                    "variables": overrides(),
                }],
            },
            "variables": [{"name": "mirror", "value": {"host": "mirror.example.com", "ports": [80, 443]}}],
        },
        "availabilityGates": gates(),
    })
}

fn full_cluster_status() -> Value {
    let replicas = json!({
        "desiredReplicas": 3,
        "replicas": 3,
        "upToDateReplicas": 0,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "versions": [{"version": "v1.35.0", "replicas": 3}],
        "upgradePlan": [{"version": "v1.36.0"}],
    });
    json!({
        "conditions": [condition("Available")],
        "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": false},
        "controlPlane": replicas,
        "workers": replicas,
        "failureDomains": [{"name": "rack-1", "controlPlane": true, "attributes": {"row": "7"}}],
        "phase": "Provisioned",
        "observedGeneration": 2,
        "deprecated": {"v1beta1": {
            "conditions": [v1beta1_condition()],
            "failureReason": "InvalidConfiguration",
            "failureMessage": "no such thing",
        }},
    })
}

fn full_class_spec() -> Value {
    json!({
        "availabilityGates": gates(),
        "infrastructure": {
            "templateRef": template("HostClusterTemplate"),
            "naming": {"template": "{{ .cluster.name }}"},
        },
        "controlPlane": {
            "metadata": metadata(),
            "templateRef": template("CapstanControlPlaneTemplate"),
            "machineInfrastructure": {"templateRef": template("HostMachineTemplate")},
            "healthCheck": {
                "checks": checks(),
                "remediation": {"triggerIf": trigger_if(), "templateRef": template("FixTemplate")},
            },
            "naming": {"template": "{{ .cluster.name }}-{{ .random }}"},
            "deletion": deletion(),
            "taints": taints(),
            "readinessGates": gates(),
        },
        "workers": {
            "machineDeployments": [{
                "metadata": metadata(),
                "class": "worker",
                "bootstrap": {"templateRef": template("CapstanConfigTemplate")},
                "infrastructure": {"templateRef": template("HostMachineTemplate")},
                "healthCheck": {"checks": checks(), "remediation": worker_remediation()},
                "failureDomain": "rack-1",
                "naming": {"template": "{{ .machineDeployment.topologyName }}-{{ .random }}"},
                "deletion": worker_deletion(),
                "taints": taints(),
                "minReadySeconds": 10,
                "readinessGates": gates(),
                "rollout": {"strategy": strategy()},
            }],
            "machinePools": [{
                "metadata": metadata(),
                "class": "pool",
                "bootstrap": {"templateRef": template("CapstanConfigTemplate")},
                "infrastructure": {"templateRef": template("HostMachinePoolTemplate")},
                "failureDomains": ["rack-1"],
                "naming": {"template": "{{ .machinePool.topologyName }}-{{ .random }}"},
                "deletion": deletion(),
                "taints": taints(),
                "minReadySeconds": 10,
            }],
        },
        "variables": [{
            "name": "mirror",
            "required": true,
            "deprecatedV1Beta1Metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "schema": {"openAPIV3Schema": every_keyword()},
        }],
        "patches": [
            {
                "name": "mirror",
                "description": "pull through the mirror",
                "enabledIf": "{{ .mirror.enabled }}",
                "definitions": [{
                    "selector": {
                        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
                        "kind": "HostMachineTemplate",
                        "matchResources": {
                            "controlPlane": true,
                            "infrastructureCluster": false,
                            "machineDeploymentClass": {"names": ["worker", "big-*"]},
                            "machinePoolClass": {"names": ["*"]},
                        },
                    },
                    "jsonPatches": [
                        {"op": "add", "path": "/spec/template/spec/mirrors/-", "value": {"host": "m"}},
                        {"op": "replace", "path": "/spec/template/spec/a", "valueFrom": {"variable": "mirror"}},
                        {"op": "add", "path": "/spec/template/spec/b", "valueFrom": {"template": "{{ .mirror }}"}},
                        {"op": "remove", "path": "/spec/template/spec/c"},
                    ],
                }],
            },
            {
                "name": "outside",
                "external": {
                    "generatePatchesExtension": "generate.example",
                    "validateTopologyExtension": "validate.example",
                    "discoverVariablesExtension": "discover.example",
                    "settings": {"level": "high"},
                },
            },
        ],
        "upgrade": {"external": {"generateUpgradePlanExtension": "plan.example"}},
        "kubernetesVersions": ["v1.35.0", "v1.36.0"],
    })
}

fn every_keyword() -> Value {
    json!({
        "description": "where images come from",
        "example": {"host": "mirror.example.com"},
        "type": "object",
        "properties": {"host": {"type": "string", "properties": {"a": {"type": "integer", "minimum": 1}}}},
        "additionalProperties": {"type": "string"},
        "maxProperties": 9,
        "minProperties": 0,
        "required": ["host"],
        "items": {"type": "string"},
        "maxItems": 4,
        "minItems": 0,
        "uniqueItems": true,
        "format": "uri",
        "maxLength": 64,
        "minLength": 1,
        "pattern": "^[a-z]+$",
        "maximum": 10,
        "exclusiveMaximum": false,
        "minimum": -10,
        "exclusiveMinimum": true,
        "x-kubernetes-preserve-unknown-fields": true,
        "enum": ["a", 1, null, {"b": []}],
        "default": {"host": "mirror.example.com"},
        "x-kubernetes-validations": [{
            "rule": "self.host != ''",
            "message": "host must be set",
            "messageExpression": "'host of ' + self.host",
            "reason": "FieldValueRequired",
            "fieldPath": ".host",
        }],
        "x-metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "x-kubernetes-int-or-string": false,
        "allOf": [{"type": "object"}],
        "oneOf": [{"type": "object"}, {"type": "string"}],
        "anyOf": [{"required": ["host"]}],
        "not": {"required": ["port"]},
    })
}

fn condition(type_: &str) -> Value {
    json!({
        "type": type_,
        "status": "True",
        "observedGeneration": 2,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
        "reason": "AsItShouldBe",
        "message": "",
    })
}

fn v1beta1_condition() -> Value {
    json!({
        "type": "Ready",
        "status": "False",
        "severity": "Error",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
        "reason": "Broken",
        "message": "it is broken",
    })
}

fn reference(group: &str, kind: &str) -> Value {
    json!({"apiGroup": format!("{group}.cluster.x-k8s.io"), "kind": kind, "name": "shop"})
}

fn template(kind: &str) -> Value {
    json!({"apiVersion": "example.cluster.x-k8s.io/v1beta2", "kind": kind, "name": "metal"})
}

fn metadata() -> Value {
    json!({"labels": {"team": "shop"}, "annotations": {"example.com/note": ""}})
}

fn gates() -> Value {
    json!([{"conditionType": "example.com/Checked", "polarity": "Positive"}, {"conditionType": "Burning", "polarity": "Negative"}])
}

fn taints() -> Value {
    json!([{"key": "example.com/gpu", "value": "yes", "effect": "NoSchedule", "propagation": "Always"}])
}

fn checks() -> Value {
    json!({
        "nodeStartupTimeoutSeconds": 0,
        "unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}],
        "unhealthyMachineConditions": [{"type": "NodeReady", "status": "False", "timeoutSeconds": 0}],
    })
}

fn trigger_if() -> Value {
    json!({"unhealthyLessThanOrEqualTo": "40%", "unhealthyInRange": "[1-3]"})
}

fn worker_remediation() -> Value {
    json!({"maxInFlight": 1, "triggerIf": trigger_if(), "templateRef": template("FixTemplate")})
}

fn deletion() -> Value {
    json!({
        "nodeDrainTimeoutSeconds": 0,
        "nodeVolumeDetachTimeoutSeconds": 60,
        "nodeDeletionTimeoutSeconds": 10,
    })
}

fn worker_deletion() -> Value {
    json!({
        "order": "Oldest",
        "nodeDrainTimeoutSeconds": 0,
        "nodeVolumeDetachTimeoutSeconds": 60,
        "nodeDeletionTimeoutSeconds": 10,
    })
}

fn strategy() -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "25%"}})
}

fn overrides() -> Value {
    json!({"overrides": [{"name": "mirror", "value": false}]})
}
