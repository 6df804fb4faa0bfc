//! The kinds of workers that clusters of a class can have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{ClassHealthCheck, ClassInfrastructureTemplate, ClassNamingSpec, ClusterClassTemplateReference};
use crate::core::{
    MachineDeletionSpec, MachineDeploymentRolloutStrategy, MachineTaint, WorkerDeletionSpec,
    WorkerHealthCheckRemediation,
};
use crate::meta::{ConditionGate, TemplateMetadata};

/// The kinds of workers that clusters can have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct WorkersClass {
    /// Workers that Cluster API keeps one by one, in MachineDeployments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["class"])
    )]
    pub machine_deployments: Vec<MachineDeploymentClass>,

    /// Workers that the infrastructure keeps as a group, in MachinePools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["class"])
    )]
    pub machine_pools: Vec<MachinePoolClass>,
}

/// A kind of workers, kept in MachineDeployments.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeploymentClass {
    /// Labels and annotations of the MachineDeployments and their machines.
    pub metadata: Option<TemplateMetadata>,

    /// What this kind of workers is called. Clusters pick it by this name.
    #[schemars(length(min = 1, max = 256))]
    pub class: String,

    /// Where the data comes from that machines start with.
    pub bootstrap: ClassBootstrapTemplate,

    /// What the machines are made of.
    pub infrastructure: ClassInfrastructureTemplate,

    /// How the health of the machines is watched.
    pub health_check: Option<ClassHealthCheck<WorkerHealthCheckRemediation>>,

    /// Failure domain the machines should be placed in: one of those the Cluster's status lists.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,

    /// How the MachineDeployments are named.
    pub naming: Option<ClassNamingSpec>,

    /// Which machines go first when scaling down, and how patient their deletion is.
    pub deletion: Option<WorkerDeletionSpec>,

    /// Taints for the Nodes, beside those that others put there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,

    /// How long a machine must have been ready before it counts as available. 0 when unset.
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,

    /// More conditions that must hold before a machine is Ready. A topology with a list of its own does not
    /// use this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,

    /// How machines are brought to a changed template.
    pub rollout: Option<MachineDeploymentClassRolloutSpec>,
}

/// How machines of a MachineDeployment are brought to a changed template.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeploymentClassRolloutSpec {
    /// How machines are replaced.
    pub strategy: Option<MachineDeploymentRolloutStrategy>,
}

/// A kind of workers, kept in MachinePools.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachinePoolClass {
    /// Labels and annotations of the MachinePools.
    pub metadata: Option<TemplateMetadata>,

    /// What this kind of workers is called. Clusters pick it by this name.
    #[schemars(length(min = 1, max = 256))]
    pub class: String,

    /// Where the data comes from that machines start with.
    pub bootstrap: ClassBootstrapTemplate,

    /// What the pools are made of.
    pub infrastructure: ClassInfrastructureTemplate,

    /// Failure domains the pools should be spread over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 256)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub failure_domains: Vec<String>,

    /// How the MachinePools are named.
    pub naming: Option<ClassNamingSpec>,

    /// Timeouts for the steps of the deletion of Machines.
    pub deletion: Option<MachineDeletionSpec>,

    /// Taints for the Nodes, beside those that others put there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,

    /// How long a machine must have been ready before it counts as available. 0 when unset.
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,
}

/// The template of a machine's bootstrap data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassBootstrapTemplate {
    /// Template of the bootstrap provider's object.
    pub template_ref: ClusterClassTemplateReference,
}
