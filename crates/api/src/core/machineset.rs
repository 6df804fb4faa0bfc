//! MachineSet: keeps a number of equal Machines.

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

/// Which machines there should be.
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
    /// Name of the Cluster the MachineSet belongs to. Cannot be changed.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = immutable()))]
    pub cluster_name: String,

    /// How many machines are wanted. 1 when unset.
    pub replicas: Option<i32>,

    /// Which Machines belong to this MachineSet. The labels of the template must match it.
    pub selector: LabelSelector,

    /// What new Machines look like.
    pub template: MachineTemplateSpec,

    /// Naming of new Machines.
    pub machine_naming: Option<MachineNamingSpec>,

    /// Which machines go first when scaling down.
    pub deletion: Option<MachineSetDeletionSpec>,
}

/// What Machines made from a template look like.
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
    /// A Go template for the name. It may use `.cluster.name`, the name of the owner (`.machineSet.name`) and
    /// must use `.random`, five characters that keep names apart. Names over 63 characters are cut.
    #[schemars(length(min = 1, max = 256))]
    pub template: Option<String>,
}

/// Which machines go first when scaling down.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineSetDeletionSpec {
    /// Machines with the delete-machine annotation, or unhealthy ones, always go first; this decides among
    /// the rest. Random when unset.
    pub order: Option<MachineSetDeletionOrder>,
}

/// Orders in which machines are taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MachineSetDeletionOrder {
    /// Any machine.
    #[default]
    Random,
    /// The youngest first.
    Newest,
    /// The oldest first.
    Oldest,
}

/// What is known of the machines.
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

    /// The generation that core has seen.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,

    /// Fields of earlier API versions.
    pub deprecated: Option<Deprecated<MachineSetV1Beta1>>,
}

/// Status fields that only v1beta1 had.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineSetV1Beta1 {
    /// Conditions of the v1beta1 shape.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<V1Beta1Condition>,

    /// A terminal problem, as one word for programs.
    pub failure_reason: Option<String>,

    /// The same problem for people.
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,

    /// How many machines carried all labels of the template.
    pub fully_labeled_replicas: Option<i32>,

    /// How many machines had a Node that was ready.
    pub ready_replicas: Option<i32>,

    /// How many of those had been ready long enough.
    pub available_replicas: Option<i32>,
}
