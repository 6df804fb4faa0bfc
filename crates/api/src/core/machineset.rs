//! MachineSet: a number of equal Machines.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::MachineSpec;
use super::deprecated::{Deprecated, V1Beta1Condition};
use crate::conditions::Condition;
use crate::meta::{StatusVersion, TemplateMetadata};
use crate::schema::{immutable, machine_template_rules};

/// Desired state of a MachineSet.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = machine_template_rules()))]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "MachineSet",
    namespaced,
    status = "MachineSetStatus",
    derive = "PartialEq",
    doc = "Keeps a number of equal Machines, replacing those that go away.",
    shortname = "ms",
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
pub struct MachineSetSpec {
    /// Name of the Cluster that the MachineSet belongs to. Immutable.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = immutable()))]
    pub cluster_name: String,

    /// Desired number of machines. Default: 1.
    pub replicas: Option<i32>,

    /// Label selector of the Machines of this MachineSet. The labels of the template must match it.
    #[schemars(with = "crate::schema::LabelSelectorSchema")]
    pub selector: LabelSelector,

    /// Template of new Machines.
    pub template: MachineTemplateSpec,

    /// Naming of new Machines.
    pub machine_naming: Option<MachineNamingSpec>,

    /// Which Machines are deleted first when scaling down.
    pub deletion: Option<MachineSetDeletionSpec>,
}

/// Template of Machines.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineTemplateSpec {
    /// Labels and annotations of the Machines.
    pub metadata: Option<TemplateMetadata>,

    /// Spec of the Machines.
    pub spec: MachineSpec,
}

/// Naming of new Machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineNamingSpec {
    /// Go template of the name. It can use `.cluster.name` and the name of the owner (`.machineSet.name`), and must use
    /// `.random`, five random characters. Longer names than 63 characters are truncated.
    #[schemars(length(min = 1, max = 256))]
    pub template: Option<String>,
}

/// Which Machines are deleted first when scaling down.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineSetDeletionSpec {
    /// Order in which Machines are deleted when scaling down: `Random`, `Newest` or `Oldest` first. Machines with the
    /// delete-machine annotation and unhealthy Machines are always deleted first. Default: `Random`.
    pub order: Option<MachineSetDeletionOrder>,
}

/// Orders in which Machines are deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MachineSetDeletionOrder {
    /// Any Machine.
    #[default]
    Random,
    /// The newest Machine first.
    Newest,
    /// The oldest Machine first.
    Oldest,
}

/// Observed state of the machines. Set by core.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineSetStatus {
    /// Conditions of the object, one entry for each type. Set by the controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

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

    /// `metadata.generation` of the spec that this status describes. Set by core.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,

    /// Deprecated fields of earlier API versions.
    pub deprecated: Option<Deprecated<MachineSetV1Beta1>>,
}

/// Status fields that exist only in v1beta1.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineSetV1Beta1 {
    /// Conditions in the v1beta1 format.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<V1Beta1Condition>,

    /// Machine-readable reason of a terminal failure.
    pub failure_reason: Option<String>,

    /// Human-readable description of the terminal failure.
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,

    /// Number of machines that have all labels of the template.
    pub fully_labeled_replicas: Option<i32>,

    /// Number of machines with a Node that is ready.
    pub ready_replicas: Option<i32>,

    /// Number of those machines that have been ready for at least `minReadySeconds`.
    pub available_replicas: Option<i32>,
}
