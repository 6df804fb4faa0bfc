//! MachineDeployment: a set of Machines, with rollouts of template changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::deprecated::{Deprecated, V1Beta1Condition};
use super::{MachineNamingSpec, MachineSetDeletionSpec, MachineTemplateSpec};
use crate::conditions::Condition;
use crate::meta::StatusVersion;
use crate::schema::{immutable, machine_template_rules};

/// Desired state of a MachineDeployment.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = machine_template_rules()))]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "MachineDeployment",
    namespaced,
    status = "MachineDeploymentStatus",
    derive = "PartialEq",
    doc = "Keeps a number of equal Machines and rolls them over when their template changes.",
    shortname = "md",
    category = "cluster-api",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterName",
        description = "Cluster the object belongs to"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].status"#,
        description = "Whether enough machines are available"
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
pub struct MachineDeploymentSpec {
    /// Name of the Cluster that the MachineDeployment belongs to. Immutable.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = immutable()))]
    pub cluster_name: String,

    /// Desired number of machines. Default: 1.
    pub replicas: Option<i32>,

    /// When and how changes of the template are rolled out to the machines.
    pub rollout: Option<MachineDeploymentRolloutSpec>,

    /// Label selector of the Machines of this MachineDeployment. The labels of the template must match it.
    #[schemars(with = "crate::schema::LabelSelectorSchema")]
    pub selector: LabelSelector,

    /// Template of the Machines.
    pub template: MachineTemplateSpec,

    /// Naming of new Machines.
    pub machine_naming: Option<MachineNamingSpec>,

    /// How unhealthy machines are remediated.
    pub remediation: Option<MachineDeploymentRemediationSpec>,

    /// Which Machines are deleted first when scaling down.
    pub deletion: Option<MachineSetDeletionSpec>,

    /// If true, rollouts are paused. Scaling still works. Default: false.
    pub paused: Option<bool>,
}

/// When and how changes of the template are rolled out to the machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeploymentRolloutSpec {
    /// After this time (RFC 3339), machines that were created before it are replaced, even if the template is
    /// unchanged.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub after: Option<Time>,

    /// How machines are replaced during a rollout.
    pub strategy: Option<MachineDeploymentRolloutStrategy>,
}

/// How machines are replaced during a rollout.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeploymentRolloutStrategy {
    /// `RollingUpdate`: core replaces outdated machines within the limits of `rollingUpdate`. `OnDelete`: core creates
    /// a new machine only when an outdated one is deleted.
    #[serde(rename = "type")]
    pub type_: RolloutStrategyType,

    /// Limits of `RollingUpdate`.
    pub rolling_update: Option<RollingUpdateLimits>,
}

/// How outdated machines are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutStrategyType {
    /// Core creates new machines and deletes outdated ones within limits.
    RollingUpdate,
    /// Core creates a new machine when an outdated one is deleted by the user or by another program.
    OnDelete,
}

/// Limits of a rolling update.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct RollingUpdateLimits {
    /// Maximum number of unavailable machines: a number, or a percentage rounded down. Default: 0.
    #[schemars(with = "Option<crate::schema::IntOrStringSchema>")]
    pub max_unavailable: Option<IntOrString>,

    /// Maximum number of machines above the desired number: a number, or a percentage rounded up. Default: 1.
    #[schemars(with = "Option<crate::schema::IntOrStringSchema>")]
    pub max_surge: Option<IntOrString>,
}

/// How unhealthy machines are remediated.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeploymentRemediationSpec {
    /// Maximum number of unhealthy machines that are remediated at the same time: a number, or a percentage rounded up.
    /// Default: no limit.
    #[schemars(with = "Option<crate::schema::IntOrStringSchema>")]
    pub max_in_flight: Option<IntOrString>,
}

/// Observed state of the machines. Set by core.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeploymentStatus {
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

    /// The label selector in string form, for the scale subresource.
    #[schemars(length(min = 1, max = 4096))]
    pub selector: Option<String>,

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
    pub phase: Option<MachineDeploymentPhase>,

    /// Deprecated fields of earlier API versions.
    pub deprecated: Option<Deprecated<MachineDeploymentV1Beta1>>,
}

/// Summary of the state of a MachineDeployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MachineDeploymentPhase {
    /// There are fewer machines than desired.
    ScalingUp,
    /// There are more machines than desired.
    ScalingDown,
    /// The number of machines is as desired.
    Running,
    /// A terminal failure was reported in the v1beta1 fields.
    Failed,
    /// The phase cannot be determined.
    Unknown,
}

/// Status fields that exist only in v1beta1.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeploymentV1Beta1 {
    /// Conditions in the v1beta1 format.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<V1Beta1Condition>,

    /// Number of machines that match the template.
    pub updated_replicas: Option<i32>,

    /// Number of machines with a Node that is ready.
    pub ready_replicas: Option<i32>,

    /// Number of those machines that have been ready for at least `minReadySeconds`.
    pub available_replicas: Option<i32>,

    /// Number of machines that are missing or not available.
    pub unavailable_replicas: Option<i32>,
}
