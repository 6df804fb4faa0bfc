//! ClusterResourceSetBinding: the manifests that were applied to one cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::ResourceKind;
use crate::schema::immutable;

/// The manifests that were applied to a cluster, by ClusterResourceSet.
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
    /// Name of the Cluster. Immutable.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = immutable()))]
    pub cluster_name: String,

    /// One entry for each ClusterResourceSet that selects the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub bindings: Vec<ResourceSetBinding>,
}

/// The manifests that one ClusterResourceSet has applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSetBinding {
    /// Name of the ClusterResourceSet.
    #[schemars(length(min = 1, max = 253))]
    pub cluster_resource_set_name: String,

    /// ConfigMaps and Secrets of the ClusterResourceSet, with their progress.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub resources: Vec<ResourceBinding>,
}

/// Progress of one ConfigMap or Secret.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBinding {
    /// Name of the ConfigMap or Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Kind of the object: `Secret` or `ConfigMap`.
    pub kind: ResourceKind,

    /// Hash of the applied content. If the content has another hash, it is applied again.
    #[schemars(length(min = 1, max = 256))]
    pub hash: Option<String>,

    /// Time of the last application.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub last_applied_time: Option<Time>,

    /// Whether the whole content was applied without errors.
    pub applied: bool,
}
