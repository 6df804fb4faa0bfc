//! Machines and MachineSets for tests, as verbs.

use capstan_api::conditions::{Condition, ConditionStatus, Conditioned as _};
use capstan_api::core::{Machine, MachineNodeReference, MachineSet};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

/// A Machine in the making.
#[derive(Clone, Debug)]
pub(crate) struct Making(Machine);

/// A Machine of Cluster `c`, made at the beginning of time, without a Node.
pub(crate) fn machine(name: &str) -> Making {
    let value = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"),
            "creationTimestamp": "1970-01-01T00:00:00Z"},
        "spec": {"clusterName": "c", "version": "v1.34.0", "bootstrap": {"dataSecretName": "s"},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Infra", "name": name}},
    });
    Making(serde_json::from_value(value).expect("a test value"))
}

impl Making {
    pub(crate) fn done(self) -> Machine {
        self.0
    }

    pub(crate) fn named(mut self, name: &str) -> Self {
        self.0.metadata.name = Some(name.to_owned());
        self
    }

    pub(crate) fn created(mut self, second: i64) -> Self {
        self.0.metadata.creation_timestamp = Some(at(second));
        self
    }

    pub(crate) fn deleting(mut self) -> Self {
        self.0.metadata.deletion_timestamp = Some(at(0));
        self
    }

    pub(crate) fn annotated(mut self, key: &str) -> Self {
        self.0.metadata.annotations.get_or_insert_default().insert(key.to_owned(), String::new());
        self
    }

    pub(crate) fn with_node(mut self) -> Self {
        let name = self.0.metadata.name.clone().unwrap_or_default();
        self.0.status.get_or_insert_default().node_ref = Some(MachineNodeReference { name });
        self
    }

    pub(crate) fn condition(self, type_: &str, status: bool) -> Self {
        self.condition_since(type_, status, "Because", 0)
    }

    pub(crate) fn condition_since(mut self, type_: &str, status: bool, reason: &str, second: i64) -> Self {
        self.0.conditions_mut().push(Condition {
            type_: type_.to_owned(),
            status: ConditionStatus::from(status),
            observed_generation: None,
            last_transition_time: at(second),
            reason: reason.to_owned(),
            message: String::new(),
        });
        self
    }

    pub(crate) fn change(mut self, change: impl FnOnce(&mut Machine)) -> Self {
        change(&mut self.0);
        self
    }
}

/// A MachineSet of Cluster `c` with templates for both references, changed by a merge of `fields`.
pub(crate) fn machine_set(name: &str, replicas: i32, fields: &Value) -> MachineSet {
    let mut value = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"),
            "labels": {}, "annotations": {}, "creationTimestamp": "1970-01-01T00:00:00Z"},
        "spec": {
            "clusterName": "c", "replicas": replicas, "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}, "annotations": {}},
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

/// Puts `more` over `value`, object by object.
pub(crate) fn merge(value: &mut Value, more: &Value) {
    match (value, more) {
        (Value::Object(value), Value::Object(more)) => {
            for (key, more) in more {
                merge(value.entry(key.clone()).or_insert(Value::Null), more);
            }
        }
        (value, more) => *value = more.clone(),
    }
}

pub(crate) fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).expect("a test value"))
}
