//! MachinePool: a group of machines that the infrastructure provider scales.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::deprecated::{Deprecated, V1Beta1Condition};
use super::{MachineInitializationStatus, MachineTemplateSpec};
use crate::conditions::Condition;
use crate::meta::StatusVersion;
use crate::schema::{immutable, machine_template_rules};

/// Desired state of a MachinePool.
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
    /// Name of the Cluster that the MachinePool belongs to. Immutable.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = immutable()))]
    pub cluster_name: String,

    /// Desired number of machines. Default: 1.
    pub replicas: Option<i32>,

    /// Template of the machines. `spec.bootstrap.configRef` and `spec.infrastructureRef` refer to objects that serve
    /// the whole pool, not to templates.
    pub template: MachineTemplateSpec,

    /// Provider IDs of the machines, copied from the infrastructure pool.
    #[serde(rename = "providerIDList", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 10000),
        inner(length(min = 1, max = 512)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub provider_id_list: Vec<String>,

    /// Failure domains that the machines of the pool are spread over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 256)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub failure_domains: Vec<String>,
}

/// Observed state of the pool. Set by core.
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

    /// Nodes of the pool's machines.
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

    /// Summary of the state, for display. Programs should read conditions instead.
    pub phase: Option<MachinePoolPhase>,

    /// `metadata.generation` of the spec that this status describes. Set by core.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,

    /// Deprecated fields of earlier API versions.
    pub deprecated: Option<Deprecated<MachinePoolV1Beta1>>,
}

/// Reference to a Node, in the format of MachinePools.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct PoolNodeReference {
    /// API version of the Node.
    pub api_version: Option<String>,

    /// Kind of the object: `Node`.
    pub kind: Option<String>,

    /// Name of the Node.
    pub name: Option<String>,

    /// Namespace. Not set, because Nodes have no namespace.
    pub namespace: Option<String>,

    /// UID of the Node.
    pub uid: Option<String>,

    /// Resource version of the Node when it was observed.
    pub resource_version: Option<String>,

    /// Field of the Node that is referred to. Not set for the whole Node.
    pub field_path: Option<String>,
}

/// Summary of the state of a MachinePool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MachinePoolPhase {
    /// Provisioning has not started.
    Pending,
    /// The bootstrap data exists; the infrastructure is being provisioned.
    Provisioning,
    /// The infrastructure is provisioned; Nodes are missing.
    Provisioned,
    /// All Nodes exist.
    Running,
    /// There are fewer machines than desired.
    ScalingUp,
    /// There are more machines than desired.
    ScalingDown,
    /// Another program, such as an autoscaler, scales the pool.
    Scaling,
    /// The pool is being deleted.
    Deleting,
    /// A terminal failure was reported in the v1beta1 fields.
    Failed,
    /// The phase cannot be determined.
    Unknown,
}

/// Status fields that exist only in v1beta1.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachinePoolV1Beta1 {
    /// Conditions in the v1beta1 format.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<V1Beta1Condition>,

    /// Machine-readable reason of a terminal failure.
    pub failure_reason: Option<String>,

    /// Human-readable description of the terminal failure.
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,

    /// Number of machines with a Node that is ready.
    pub ready_replicas: Option<i32>,

    /// Number of those machines that have been ready for at least `minReadySeconds`.
    pub available_replicas: Option<i32>,

    /// Number of machines that are missing or not available.
    pub unavailable_replicas: Option<i32>,
}
