//! Classes of workers that clusters of a ClusterClass can have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{ClassHealthCheck, ClassInfrastructureTemplate, ClassNamingSpec, ClusterClassTemplateReference};
use crate::core::{
    MachineDeletionSpec, MachineDeploymentRolloutStrategy, MachineTaint, WorkerDeletionSpec,
    WorkerHealthCheckRemediation,
};
use crate::meta::{ConditionGate, TemplateMetadata};

/// Classes of workers that clusters can have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct WorkersClass {
    /// Classes of MachineDeployments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["class"])
    )]
    pub machine_deployments: Vec<MachineDeploymentClass>,

    /// Classes of MachinePools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["class"])
    )]
    pub machine_pools: Vec<MachinePoolClass>,
}

/// A class of MachineDeployments.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeploymentClass {
    /// Labels and annotations of the MachineDeployments and their machines.
    pub metadata: Option<TemplateMetadata>,

    /// Name of the worker class. Topologies refer to it.
    #[schemars(length(min = 1, max = 256))]
    pub class: String,

    /// Template of the bootstrap data of the machines.
    pub bootstrap: ClassBootstrapTemplate,

    /// Template of the infrastructure of the machines.
    pub infrastructure: ClassInfrastructureTemplate,

    /// Health check of the machines.
    pub health_check: Option<ClassHealthCheck<WorkerHealthCheckRemediation>>,

    /// Failure domain for the machines: one of those in `status.failureDomains` of the Cluster.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,

    /// Naming of the MachineDeployments.
    pub naming: Option<ClassNamingSpec>,

    /// Which Machines are deleted first when scaling down, and the timeouts of their deletion.
    pub deletion: Option<WorkerDeletionSpec>,

    /// Taints that core sets on the Nodes. Taints from other sources are not changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,

    /// Time that a Machine must be Ready before it counts as Available, in seconds. Default: 0.
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,

    /// Additional conditions that must be met before a machine is Ready. Used for topologies without their own list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,

    /// How changes of the template are rolled out to the machines.
    pub rollout: Option<MachineDeploymentClassRolloutSpec>,
}

/// How changes of the template are rolled out to the machines of a MachineDeployment.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeploymentClassRolloutSpec {
    /// How machines are replaced during a rollout.
    pub strategy: Option<MachineDeploymentRolloutStrategy>,
}

/// A class of MachinePools.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachinePoolClass {
    /// Labels and annotations of the MachinePools.
    pub metadata: Option<TemplateMetadata>,

    /// Name of the worker class. Topologies refer to it.
    #[schemars(length(min = 1, max = 256))]
    pub class: String,

    /// Template of the bootstrap data of the machines.
    pub bootstrap: ClassBootstrapTemplate,

    /// Template of the infrastructure of the pools.
    pub infrastructure: ClassInfrastructureTemplate,

    /// Failure domains that the machines of the pools are spread over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 256)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub failure_domains: Vec<String>,

    /// Naming of the MachinePools.
    pub naming: Option<ClassNamingSpec>,

    /// Timeouts for the steps of the deletion of Machines.
    pub deletion: Option<MachineDeletionSpec>,

    /// Taints that core sets on the Nodes. Taints from other sources are not changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,

    /// Time that a Machine must be Ready before it counts as Available, in seconds. Default: 0.
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,
}

/// Template of the bootstrap data of machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassBootstrapTemplate {
    /// Template of the object of the bootstrap provider.
    pub template_ref: ClusterClassTemplateReference,
}
