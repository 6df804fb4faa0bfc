//! CapstanControlPlaneTemplate: the template from which a ClusterClass creates control planes.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{ControlPlaneRemediation, ControlPlaneRollout, EtcdSpec, HealingSpec};
use crate::bootstrap::CapstanConfigSpec;
use crate::core::{MachineDeletionSpec, MachineNamingSpec, MachineTaint};
use crate::meta::{ConditionGate, TemplateMetadata};

/// The template for CapstanControlPlanes.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "CapstanControlPlaneTemplate",
    namespaced,
    derive = "PartialEq",
    doc = "A template from which a ClusterClass makes CapstanControlPlanes.",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct CapstanControlPlaneTemplateSpec {
    /// The template: metadata and spec of the CapstanControlPlanes.
    pub template: CapstanControlPlaneTemplateResource,
}

/// Metadata and spec of the CapstanControlPlanes made from a template.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapstanControlPlaneTemplateResource {
    /// Labels and annotations of the CapstanControlPlanes.
    pub metadata: Option<TemplateMetadata>,

    /// Spec of the CapstanControlPlanes, without the fields that the Cluster's topology sets: replicas, version and
    /// infrastructure.
    pub spec: CapstanControlPlaneTemplateResourceSpec,
}

/// Spec of a CapstanControlPlane without the fields that a topology sets.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapstanControlPlaneTemplateResourceSpec {
    /// Template of the Machines.
    pub machine_template: Option<TemplatedMachineTemplate>,

    /// Setup of the machines.
    #[serde(default)]
    pub config: CapstanConfigSpec,

    /// When and how changes are rolled out to the machines.
    pub rollout: Option<ControlPlaneRollout>,

    /// Settings of etcd.
    pub etcd: Option<EtcdSpec>,

    /// How Capstan heals control plane machines and workers in place when their health check has failed. Default: the
    /// defaults of its fields.
    pub healing: Option<HealingSpec>,

    /// Limits for the replacement of unhealthy machines. Used only if `spec.rollout.strategy.type` allows replacement.
    pub remediation: Option<ControlPlaneRemediation>,

    /// Naming of new Machines.
    pub machine_naming: Option<MachineNamingSpec>,
}

/// Template of the Machines of a control plane, without their infrastructure.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct TemplatedMachineTemplate {
    /// Labels and annotations of the Machines.
    pub metadata: Option<TemplateMetadata>,

    /// Spec of the Machines.
    pub spec: Option<TemplatedMachineTemplateSpec>,
}

/// Spec of the Machines of a control plane, without their infrastructure.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TemplatedMachineTemplateSpec {
    /// Additional conditions of the Machine that must be met before it is Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,

    /// Timeouts for the steps of the deletion of a Machine.
    pub deletion: Option<MachineDeletionSpec>,

    /// Taints of the machines' Nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,
}
