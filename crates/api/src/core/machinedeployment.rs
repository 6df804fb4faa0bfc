//! MachineDeployment: rolls a set of Machines from one template to the next.

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

/// Which machines there should be, and how to get there.
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
    /// Name of the Cluster the MachineDeployment belongs to. Cannot be changed.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = immutable()))]
    pub cluster_name: String,

    /// How many machines are wanted. 1 when unset.
    pub replicas: Option<i32>,

    /// When and how machines are brought to a changed template.
    pub rollout: Option<MachineDeploymentRolloutSpec>,

    /// Which Machines belong to this MachineDeployment. The labels of the template must match it.
    pub selector: LabelSelector,

    /// What the Machines look like.
    pub template: MachineTemplateSpec,

    /// Naming of new Machines.
    pub machine_naming: Option<MachineNamingSpec>,

    /// How unhealthy machines are replaced.
    pub remediation: Option<MachineDeploymentRemediationSpec>,

    /// Which machines go first when scaling down.
    pub deletion: Option<MachineSetDeletionSpec>,

    /// While true nothing is rolled out; scaling still works.
    pub paused: Option<bool>,
}

/// When and how machines are brought to a changed template.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeploymentRolloutSpec {
    /// Machines made before this time are replaced once it has passed, even if the template is the same.
    pub after: Option<Time>,

    /// How machines are replaced.
    pub strategy: Option<MachineDeploymentRolloutStrategy>,
}

/// How machines are replaced.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeploymentRolloutStrategy {
    /// Whether Capstan replaces outdated machines by itself, or waits until they are deleted.
    #[serde(rename = "type")]
    pub type_: RolloutStrategyType,

    /// Limits for `RollingUpdate`.
    pub rolling_update: Option<RollingUpdateLimits>,
}

/// Ways to replace machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutStrategyType {
    /// New machines come, old ones go, within limits.
    RollingUpdate,
    /// A new machine comes when somebody deletes an old one.
    OnDelete,
}

/// How far a rolling update may stray from the wanted number of machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct RollingUpdateLimits {
    /// How many machines may be missing at a time: a number, or a percentage rounded down. 0 when unset.
    pub max_unavailable: Option<IntOrString>,

    /// How many machines there may be too many: a number, or a percentage rounded up. 1 when unset.
    pub max_surge: Option<IntOrString>,
}

/// How unhealthy machines are replaced.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeploymentRemediationSpec {
    /// How many unhealthy machines may be replaced at a time: a number, or a percentage rounded up. No limit
    /// when unset.
    pub max_in_flight: Option<IntOrString>,
}

/// What is known of the machines.
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

    /// The generation that core has seen.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,

    /// The selector as text, for the scale subresource and those who use it.
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

    /// Where it is in its life, in one word, for people. Programs read conditions.
    pub phase: Option<MachineDeploymentPhase>,

    /// Fields of earlier API versions.
    pub deprecated: Option<Deprecated<MachineDeploymentV1Beta1>>,
}

/// Where a MachineDeployment is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MachineDeploymentPhase {
    /// There are fewer machines than wanted.
    ScalingUp,
    /// There are more machines than wanted.
    ScalingDown,
    /// There are as many machines as wanted.
    Running,
    /// A terminal failure was reported the v1beta1 way.
    Failed,
    /// None of the above fits.
    Unknown,
}

/// Status fields that only v1beta1 had.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeploymentV1Beta1 {
    /// Conditions of the v1beta1 shape.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<V1Beta1Condition>,

    /// How many machines matched the template.
    pub updated_replicas: Option<i32>,

    /// How many machines had a Node that was ready.
    pub ready_replicas: Option<i32>,

    /// How many of those had been ready long enough.
    pub available_replicas: Option<i32>,

    /// How many machines were missing or not available.
    pub unavailable_replicas: Option<i32>,
}
