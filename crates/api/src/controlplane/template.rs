//! CapstanControlPlaneTemplate: what a ClusterClass makes control planes from.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{ControlPlaneRemediation, ControlPlaneRollout, EtcdSpec, HealingSpec};
use crate::bootstrap::CapstanConfigSpec;
use crate::core::{MachineDeletionSpec, MachineNamingSpec, MachineTaint};
use crate::meta::{ConditionGate, TemplateMetadata};

/// What CapstanControlPlanes made from the template look like.
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
    /// The CapstanControlPlane to make.
    pub template: CapstanControlPlaneTemplateResource,
}

/// The CapstanControlPlane to make.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapstanControlPlaneTemplateResource {
    /// Labels and annotations of the CapstanControlPlane.
    pub metadata: Option<TemplateMetadata>,

    /// Spec of the CapstanControlPlane, without what the Cluster's topology decides: replicas, version and
    /// infrastructure.
    pub spec: CapstanControlPlaneTemplateResourceSpec,
}

/// Spec of a CapstanControlPlane without what a topology decides.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapstanControlPlaneTemplateResourceSpec {
    /// What the Machines look like.
    pub machine_template: Option<TemplatedMachineTemplate>,

    /// How the machines are set up.
    #[serde(default)]
    pub config: CapstanConfigSpec,

    /// When and how a change reaches the machines.
    pub rollout: Option<ControlPlaneRollout>,

    /// How etcd is looked after.
    pub etcd: Option<EtcdSpec>,

    /// How machines whose health check has failed are healed in place: those of the control plane and workers. With
    /// defaults when unset.
    pub healing: Option<HealingSpec>,

    /// How unhealthy machines are replaced, where spec.rollout.strategy.type allows that.
    pub remediation: Option<ControlPlaneRemediation>,

    /// How new Machines are named.
    pub machine_naming: Option<MachineNamingSpec>,
}

/// What the Machines of a control plane look like, without their infrastructure.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct TemplatedMachineTemplate {
    /// Labels and annotations of the Machines.
    pub metadata: Option<TemplateMetadata>,

    /// What the Machines' specs take over.
    pub spec: Option<TemplatedMachineTemplateSpec>,
}

/// What the specs of a control plane's Machines take over, without their infrastructure.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TemplatedMachineTemplateSpec {
    /// More conditions that must hold before a machine is Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,

    /// How patient the deletion of a machine is.
    pub deletion: Option<MachineDeletionSpec>,

    /// Taints for the machines' Nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,
}
