//! ClusterResourceSetBinding: what was applied to one cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::ResourceKind;
use crate::schema::immutable;

/// What was applied to a cluster, and by which ClusterResourceSets.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "addons.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "ClusterResourceSetBinding",
    namespaced,
    derive = "PartialEq",
    doc = "Keeps track of what ClusterResourceSets have applied to one cluster. Written by core.",
    category = "cluster-api",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterName",
        description = "Cluster the object belongs to"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct ClusterResourceSetBindingSpec {
    /// Name of the Cluster to which things were applied. Cannot be changed.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = immutable()))]
    pub cluster_name: String,

    /// One entry for each ClusterResourceSet that selects the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub bindings: Vec<ResourceSetBinding>,
}

/// What one ClusterResourceSet has applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSetBinding {
    /// Name of the ClusterResourceSet.
    #[schemars(length(min = 1, max = 253))]
    pub cluster_resource_set_name: String,

    /// Its ConfigMaps and Secrets, and how far they have come.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub resources: Vec<ResourceBinding>,
}

/// How far one ConfigMap or Secret has come.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBinding {
    /// Name of the ConfigMap or Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Whether it is a ConfigMap or a Secret.
    pub kind: ResourceKind,

    /// Hash of what was applied. Another hash means that there is something new to apply.
    #[schemars(length(min = 1, max = 256))]
    pub hash: Option<String>,

    /// When it was last applied.
    pub last_applied_time: Option<Time>,

    /// Whether all of it was applied without an error.
    pub applied: bool,
}
