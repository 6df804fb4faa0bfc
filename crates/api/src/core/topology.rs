//! `spec.topology` of a Cluster: the cluster in short, on the shapes that a ClusterClass offers.
//!
//! Almost everything here is optional, because the class says it already; what is set here counts instead.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{
    AnyJson, MachineDeletionSpec, MachineDeploymentRolloutSpec, MachineHealthCheckChecks,
    MachineHealthCheckRemediation, MachineSetDeletionOrder, MachineTaint, RemediationTemplateReference,
    RemediationTrigger,
};
use crate::meta::{ConditionGate, TemplateMetadata};
use crate::schema::{DNS_LABEL, DNS_SUBDOMAIN, cel, kubernetes_version};

/// A cluster in short: which class it has, and what is particular to it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Topology {
    /// The ClusterClass the cluster is made from.
    pub class_ref: ClusterClassRef,

    /// Kubernetes version of the whole cluster, with its leading `v`. Raising it upgrades the control plane
    /// first, then the workers.
    #[schemars(length(min = 1, max = 256), extend("x-kubernetes-validations" = kubernetes_version()))]
    pub version: String,

    /// The control plane.
    pub control_plane: Option<ControlPlaneTopology>,

    /// The workers.
    pub workers: Option<WorkersTopology>,

    /// Values for the variables that the class has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 1000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub variables: Vec<ClusterVariable>,
}

/// Names a ClusterClass.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClassRef {
    /// Name of the ClusterClass.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Namespace of the ClusterClass. That of the Cluster when unset.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: Option<String>,
}

/// What is particular to this cluster's control plane.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneTopology {
    /// Labels and annotations of the control plane and its machines, beside those of the class.
    pub metadata: Option<TemplateMetadata>,

    /// How many machines are wanted. Left to the control plane provider when unset.
    pub replicas: Option<i32>,

    /// When machines are replaced although nothing changed.
    pub rollout: Option<ControlPlaneTopologyRolloutSpec>,

    /// Whether and how the health of the machines is watched.
    pub health_check: Option<TopologyHealthCheck<MachineHealthCheckRemediation>>,

    /// Timeouts for the steps of the deletion of Machines.
    pub deletion: Option<MachineDeletionSpec>,

    /// Taints for the Nodes, beside those that others put there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,

    /// Additional conditions of the Machine that must be met before it is Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,

    /// Values of variables that differ for the control plane.
    pub variables: Option<VariableOverrides>,
}

/// When control plane machines are replaced although nothing changed.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneTopologyRolloutSpec {
    /// Machines made before this time are replaced once it has passed.
    pub after: Option<Time>,
}

/// Whether and how the health of machines is watched in one cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TopologyHealthCheck<Remediation> {
    /// Whether there is a MachineHealthCheck. When unset, there is one if checks or remediation are set, here
    /// or in the class.
    pub enabled: Option<bool>,

    /// What makes a machine unhealthy. With this or `remediation` set, nothing is taken from the class.
    pub checks: Option<MachineHealthCheckChecks>,

    /// What is done about unhealthy machines, and when it is held back.
    pub remediation: Option<Remediation>,
}

/// What is done about the unhealthy machines of a MachineDeployment, and when it is held back.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct WorkerHealthCheckRemediation {
    /// How many unhealthy machines may be replaced at a time: a number, or a percentage rounded up. No limit
    /// when unset.
    pub max_in_flight: Option<IntOrString>,

    /// How many machines may be unhealthy for remediation to go on. Above it, something bigger is wrong and a
    /// person should look.
    pub trigger_if: Option<RemediationTrigger>,

    /// Template for external remediation. When unset, the owner of the Machine replaces the Machine.
    pub template_ref: Option<RemediationTemplateReference>,
}

/// The workers of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct WorkersTopology {
    /// Workers that Cluster API keeps one by one. Each entry becomes a MachineDeployment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 2000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub machine_deployments: Vec<MachineDeploymentTopology>,

    /// Workers that the infrastructure keeps as a group. Each entry becomes a MachinePool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 2000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub machine_pools: Vec<MachinePoolTopology>,
}

/// A MachineDeployment of a cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([(
        "!has(self.replicas) || !has(self.metadata) || !has(self.metadata.annotations) || \
         !('cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size' in self.metadata.annotations || \
         'cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size' in self.metadata.annotations)",
        "replicas must not be set together with the annotations of the autoscaler: remove replicas, or the \
         annotations cluster-api-autoscaler-node-group-min-size and -max-size",
    )])
))]
pub struct MachineDeploymentTopology {
    /// Labels and annotations of the MachineDeployment and its machines, beside those of the class.
    pub metadata: Option<TemplateMetadata>,

    /// Which of the MachineDeployments of the ClusterClass it is made from.
    #[schemars(length(min = 1, max = 256))]
    pub class: String,

    /// A name for this entry, which no other MachineDeployment of the topology has. It is part of the name of
    /// the MachineDeployment and a label on it.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Failure domain the machines should be placed in: one of those the Cluster's status lists.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,

    /// How many machines are wanted. Leave it out when an autoscaler decides.
    pub replicas: Option<i32>,

    /// Whether and how the health of the machines is watched.
    pub health_check: Option<TopologyHealthCheck<WorkerHealthCheckRemediation>>,

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

    /// Additional conditions of the Machine that must be met before it is Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,

    /// When and how machines are brought to a changed template.
    pub rollout: Option<MachineDeploymentRolloutSpec>,

    /// Values of variables that differ for this MachineDeployment.
    pub variables: Option<VariableOverrides>,
}

/// Which machines of a MachineDeployment go first when scaling down, and how patient their deletion is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct WorkerDeletionSpec {
    /// Machines with the delete-machine annotation, or unhealthy ones, always go first; this decides among
    /// the rest. Random when unset.
    pub order: Option<MachineSetDeletionOrder>,

    /// How long to try to drain the Node before going on without. 0 or unset: as long as it takes.
    #[schemars(range(min = 0))]
    pub node_drain_timeout_seconds: Option<i32>,

    /// How long to wait for volumes to be detached before going on without. 0 or unset: as long as it takes.
    #[schemars(range(min = 0))]
    pub node_volume_detach_timeout_seconds: Option<i32>,

    /// How long to try to delete the Node object once the machine is gone. 0: as long as it takes.
    #[schemars(range(min = 0))]
    pub node_deletion_timeout_seconds: Option<i32>,
}

/// A MachinePool of a cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachinePoolTopology {
    /// Labels and annotations of the MachinePool, beside those of the class.
    pub metadata: Option<TemplateMetadata>,

    /// Which of the MachinePools of the ClusterClass it is made from.
    #[schemars(length(min = 1, max = 256))]
    pub class: String,

    /// A name for this entry, which no other MachinePool of the topology has. It is part of the name of the
    /// MachinePool and a label on it.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Failure domains the pool should be spread over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        inner(length(min = 1, max = 256)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub failure_domains: Vec<String>,

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

    /// How many machines are wanted. Leave it out when an autoscaler decides.
    pub replicas: Option<i32>,

    /// Values of variables that differ for this MachinePool.
    pub variables: Option<VariableOverrides>,
}

/// A value for a variable of the class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVariable {
    /// Name of the variable.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,

    /// Its value, of whatever shape the schema of the variable asks for.
    pub value: AnyJson,
}

/// Values of variables that differ for a part of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct VariableOverrides {
    /// The values that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 1000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub overrides: Vec<ClusterVariable>,
}
