//! ClusterResourceSet: manifests in ConfigMaps and Secrets that are applied to all selected clusters.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::conditions::Condition;
use crate::core::{Deprecated, V1Beta1Conditions};
use crate::schema::{cel, immutable};

/// Which manifests are applied to which clusters.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cel([
    (
        "(has(self.clusterSelector.matchLabels) && size(self.clusterSelector.matchLabels) > 0) || \
         (has(self.clusterSelector.matchExpressions) && size(self.clusterSelector.matchExpressions) > 0)",
        "clusterSelector must not be empty: say which clusters are meant",
    ),
    (
        "!has(self.clusterSelector.matchExpressions) || \
         self.clusterSelector.matchExpressions.all(e, e.operator in ['In', 'NotIn'] \
         ? has(e.values) && size(e.values) > 0 \
         : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",
        "clusterSelector.matchExpressions: In and NotIn need values, Exists and DoesNotExist take none, and \
         there are no other operators",
    ),
    (
        "self.clusterSelector == oldSelf.clusterSelector",
        "clusterSelector cannot be changed; create another ClusterResourceSet for other clusters",
    ),
])))]
#[kube(
    group = "addons.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "ClusterResourceSet",
    namespaced,
    status = "ClusterResourceSetStatus",
    derive = "PartialEq",
    doc = "Applies manifests from ConfigMaps and Secrets to the clusters it selects.",
    category = "cluster-api",
    printcolumn(
        name = "Applied",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="ResourcesApplied")].status"#,
        description = "Whether everything is applied to every selected cluster"
    ),
    printcolumn(
        name = "Paused",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Paused")].status"#,
        priority = 10,
        description = "Whether reconciliation is paused"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct ClusterResourceSetSpec {
    /// Label selector of the Clusters in the same namespace. Must not be empty. Immutable.
    #[schemars(with = "crate::schema::LabelSelectorSchema")]
    pub cluster_selector: LabelSelector,

    /// ConfigMaps and Secrets with the manifests, applied in this order.
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub resources: Vec<ResourceRef>,

    /// `ApplyOnce`: apply the manifests once for each cluster. `Reconcile`: apply them again when they change. Default:
    /// `ApplyOnce`. Immutable.
    #[schemars(extend("default" = "ApplyOnce", "x-kubernetes-validations" = immutable()))]
    pub strategy: Option<ClusterResourceSetStrategy>,
}

/// Reference to a ConfigMap or Secret with manifests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ResourceRef {
    /// Name of the ConfigMap or Secret, in the namespace of the ClusterResourceSet.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Kind of the object: `Secret` (of the type `addons.cluster.x-k8s.io/resource-set`) or `ConfigMap`.
    pub kind: ResourceKind,
}

/// Kinds that can contain manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ResourceKind {
    /// A Secret of the type `addons.cluster.x-k8s.io/resource-set`.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

/// How often manifests are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClusterResourceSetStrategy {
    /// Apply the manifests once for each cluster.
    #[default]
    ApplyOnce,
    /// Apply the manifests again when the ConfigMap or Secret changes.
    Reconcile,
}

/// Observed state of a ClusterResourceSet. Set by core.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterResourceSetStatus {
    /// Conditions of the object, one entry for each type. Set by the controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// `metadata.generation` of the spec that this status describes. Set by core.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,

    /// Deprecated fields of earlier API versions.
    pub deprecated: Option<Deprecated<V1Beta1Conditions>>,
}
