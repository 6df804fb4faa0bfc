//! MachineDrainRule: how pods are treated when a Node is drained.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::schema::cel;

/// Which pods on which machines the rule applies to, and how they are treated.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "MachineDrainRule",
    namespaced,
    derive = "PartialEq",
    doc = "Says what happens to certain pods while the Node of a Machine is drained.",
    category = "cluster-api",
    printcolumn(
        name = "Behavior",
        type_ = "string",
        json_path = ".spec.drain.behavior",
        description = "What happens to the pods"
    ),
    printcolumn(
        name = "Order",
        type_ = "string",
        json_path = ".spec.drain.order",
        description = "When it happens"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct MachineDrainRuleSpec {
    /// How the pods are treated.
    pub drain: MachineDrainRuleDrain,

    /// Machines that the rule applies to; one matching entry is enough. Default: all machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = no_duplicates())
    )]
    pub machines: Vec<MachineDrainRuleMachine>,

    /// Pods that the rule applies to; one matching entry is enough. Default: all pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = no_duplicates())
    )]
    pub pods: Vec<MachineDrainRulePods>,
}

fn no_duplicates() -> serde_json::Value {
    cel([("self.all(x, self.exists_one(y, x == y))", "entries must be unique")])
}

/// How pods are treated when a Node is drained.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cel([
    ("!has(self.order) || self.behavior == 'Drain'", "order must not be set unless behavior is Drain"),
])))]
pub struct MachineDrainRuleDrain {
    /// `Drain`: evict the pods. `Skip`: do not evict them. `WaitCompleted`: wait until they have completed.
    pub behavior: DrainBehavior,

    /// Drain order: pods with a lower order are drained first. Only allowed with `Drain`. Default: 0.
    pub order: Option<i32>,
}

/// Ways to treat a pod when its Node is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DrainBehavior {
    /// Evict the pod.
    Drain,
    /// Do not evict the pod.
    Skip,
    /// Wait until the pod has completed.
    WaitCompleted,
}

/// Selects machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDrainRuleMachine {
    /// Label selector of Machines. Default: all Machines.
    #[schemars(with = "Option<crate::schema::LabelSelectorSchema>")]
    pub selector: Option<LabelSelector>,

    /// Label selector of the Machines' Cluster. Default: all Clusters.
    #[schemars(with = "Option<crate::schema::LabelSelectorSchema>")]
    pub cluster_selector: Option<LabelSelector>,
}

/// Selects pods.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDrainRulePods {
    /// Label selector of pods. Default: all pods.
    #[schemars(with = "Option<crate::schema::LabelSelectorSchema>")]
    pub selector: Option<LabelSelector>,

    /// Label selector of the pods' namespaces. Default: all namespaces.
    #[schemars(with = "Option<crate::schema::LabelSelectorSchema>")]
    pub namespace_selector: Option<LabelSelector>,
}
