//! MachineDrainRule: what happens to which pods when a Node is drained.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::schema::cel;

/// Which pods on which machines, and what happens to them.
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
    /// What happens to the pods.
    pub drain: MachineDrainRuleDrain,

    /// Which machines the rule is for; any entry that matches suffices. All machines when unset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = no_duplicates())
    )]
    pub machines: Vec<MachineDrainRuleMachine>,

    /// Which pods the rule is for; any entry that matches suffices. All pods when unset.
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

/// What happens to pods while a Node is drained.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDrainRuleDrain {
    /// Evict the pods, leave them, or wait until they end by themselves.
    pub behavior: DrainBehavior,

    /// Pods of a lower order are drained before those of a higher one. 0 when unset. Not for `Skip`.
    pub order: Option<i32>,
}

/// Ways to treat a pod on a Node that is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DrainBehavior {
    /// Evict it.
    Drain,
    /// Leave it.
    Skip,
    /// Wait until it has ended by itself.
    WaitCompleted,
}

/// Selects machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDrainRuleMachine {
    /// Labels of the Machine. Any Machine when unset.
    pub selector: Option<LabelSelector>,

    /// Labels of the Machine's Cluster. Any Cluster when unset.
    pub cluster_selector: Option<LabelSelector>,
}

/// Selects pods.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDrainRulePods {
    /// Labels of the pod. Any pod when unset.
    pub selector: Option<LabelSelector>,

    /// Labels of the pod's namespace. Any namespace when unset.
    pub namespace_selector: Option<LabelSelector>,
}
