//! MachinePool: a group of machines that the infrastructure itself scales.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::deprecated::{Deprecated, V1Beta1Condition};
use super::{MachineInitializationStatus, MachineTemplateSpec};
use crate::conditions::Condition;
use crate::meta::StatusVersion;
use crate::schema::{immutable, machine_template_rules};

/// Which group of machines there should be.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = machine_template_rules()))]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "MachinePool",
    namespaced,
    status = "MachinePoolStatus",
    derive = "PartialEq",
    doc = "A group of machines that the infrastructure provider makes and scales as one.",
    shortname = "mp",
    category = "cluster-api",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterName",
        description = "Cluster the object belongs to"
    ),
    printcolumn(
        name = "Desired",
        type_ = "integer",
        json_path = ".spec.replicas",
        description = "How many machines are wanted"
    ),
    printcolumn(
        name = "Current",
        type_ = "integer",
        json_path = ".status.replicas",
        description = "How many machines there are"
    ),
    printcolumn(
        name = "Ready",
        type_ = "integer",
        json_path = ".status.readyReplicas",
        description = "How many machines are ready"
    ),
    printcolumn(
        name = "Available",
        type_ = "integer",
        json_path = ".status.availableReplicas",
        description = "How many machines are available"
    ),
    printcolumn(
        name = "Up-to-date",
        type_ = "integer",
        json_path = ".status.upToDateReplicas",
        description = "How many machines match the template"
    ),
    printcolumn(
        name = "Paused",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Paused")].status"#,
        priority = 10,
        description = "Whether reconciliation is paused"
    ),
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "Where it is in its life"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    ),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".spec.template.spec.version",
        description = "Kubernetes version of the template"
    )
)]
pub struct MachinePoolSpec {
    /// Name of the Cluster the MachinePool belongs to. Cannot be changed.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = immutable()))]
    pub cluster_name: String,

    /// How many machines are wanted. 1 when unset.
    pub replicas: Option<i32>,

    /// What the machines look like. `spec.bootstrap.configRef` and `spec.infrastructureRef` name objects that
    /// serve the whole pool, not templates.
    pub template: MachineTemplateSpec,

    /// Identities of the machines at their infrastructure provider, copied from the infrastructure pool.
    #[serde(rename = "providerIDList", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 10000),
        inner(length(min = 1, max = 512)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub provider_id_list: Vec<String>,

    /// Failure domains the pool should be spread over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 256)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub failure_domains: Vec<String>,
}

/// What is known of the pool.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachinePoolStatus {
    /// Conditions of the object, one entry for each type. Set by the controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// Progress of the first provisioning. Set by the controllers.
    pub initialization: Option<MachineInitializationStatus>,

    /// The Nodes the pool's machines became.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10000), extend("x-kubernetes-list-type" = "atomic"))]
    pub node_refs: Vec<PoolNodeReference>,

    /// Number of machines.
    pub replicas: Option<i32>,

    /// Number of machines that are Ready.
    pub ready_replicas: Option<i32>,

    /// Number of machines that are Available.
    pub available_replicas: Option<i32>,

    /// Number of machines that are UpToDate.
    pub up_to_date_replicas: Option<i32>,

    /// Kubernetes versions of the machines, oldest first, with the number of machines of each version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"])
    )]
    pub versions: Vec<StatusVersion>,

    /// Where it is in its life, in one word, for people.
    pub phase: Option<MachinePoolPhase>,

    /// The generation that core has seen.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,

    /// Fields of earlier API versions.
    pub deprecated: Option<Deprecated<MachinePoolV1Beta1>>,
}

/// Names a Node, in the long form that pools have kept.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct PoolNodeReference {
    /// API version of the Node.
    pub api_version: Option<String>,

    /// Kind, which is `Node`.
    pub kind: Option<String>,

    /// Name of the Node.
    pub name: Option<String>,

    /// Namespace, which Nodes do not have.
    pub namespace: Option<String>,

    /// UID of the Node.
    pub uid: Option<String>,

    /// Resource version at which the Node was seen.
    pub resource_version: Option<String>,

    /// Part of the Node that is meant, if not the whole.
    pub field_path: Option<String>,
}

/// Where a MachinePool is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MachinePoolPhase {
    /// Nothing has happened yet.
    Pending,
    /// Bootstrap data is there; the infrastructure is being made.
    Provisioning,
    /// The infrastructure is there; the Nodes are not.
    Provisioned,
    /// All Nodes are there.
    Running,
    /// There are fewer machines than wanted.
    ScalingUp,
    /// There are more machines than wanted.
    ScalingDown,
    /// Somebody else scales the pool.
    Scaling,
    /// The pool is being deleted.
    Deleting,
    /// A terminal failure was reported the v1beta1 way.
    Failed,
    /// None of the above fits.
    Unknown,
}

/// Status fields that only v1beta1 had.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachinePoolV1Beta1 {
    /// Conditions of the v1beta1 shape.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<V1Beta1Condition>,

    /// A terminal problem, as one word for programs.
    pub failure_reason: Option<String>,

    /// The same problem for people.
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,

    /// How many machines had a Node that was ready.
    pub ready_replicas: Option<i32>,

    /// How many of those had been ready long enough.
    pub available_replicas: Option<i32>,

    /// How many machines were missing or not available.
    pub unavailable_replicas: Option<i32>,
}
