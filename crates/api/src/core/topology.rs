//! `spec.topology` of a Cluster: a cluster that is created from a ClusterClass.
//!
//! Almost all fields are optional, because the class has them too. A value in the topology overrides the class.

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

/// A cluster that is created from a ClusterClass: the class, and the values of this cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Topology {
    /// The ClusterClass from which the cluster is created.
    pub class_ref: ClusterClassRef,

    /// Kubernetes version of the whole cluster, with a leading `v`. An upgrade starts with the control plane and
    /// continues with the workers.
    #[schemars(length(min = 1, max = 256), extend("x-kubernetes-validations" = kubernetes_version()))]
    pub version: String,

    /// The control plane.
    pub control_plane: Option<ControlPlaneTopology>,

    /// The workers.
    pub workers: Option<WorkersTopology>,

    /// Values of the variables of the class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 1000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub variables: Vec<ClusterVariable>,
}

/// Reference to a ClusterClass.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClassRef {
    /// Name of the ClusterClass.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Namespace of the ClusterClass. Default: the namespace of the Cluster.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: Option<String>,
}

/// Settings of the control plane of this cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneTopology {
    /// Labels and annotations of the control plane and its machines, in addition to those of the class.
    pub metadata: Option<TemplateMetadata>,

    /// Desired number of machines. Default: up to the control plane provider.
    pub replicas: Option<i32>,

    /// When machines are replaced without a change.
    pub rollout: Option<ControlPlaneTopologyRolloutSpec>,

    /// Health check of the machines of this cluster.
    pub health_check: Option<TopologyHealthCheck<MachineHealthCheckRemediation>>,

    /// Timeouts for the steps of the deletion of Machines.
    pub deletion: Option<MachineDeletionSpec>,

    /// Taints that core sets on the Nodes. Taints from other sources are not changed.
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

    /// Values of variables that override those of the cluster for the control plane.
    pub variables: Option<VariableOverrides>,
}

/// When control plane machines are replaced without a change.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneTopologyRolloutSpec {
    /// After this time (RFC 3339), machines that were created before it are replaced.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub after: Option<Time>,
}

/// Health check of machines of one cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TopologyHealthCheck<Remediation> {
    /// Whether core creates a MachineHealthCheck. Default: true if checks or remediation are set, here or in the class.
    pub enabled: Option<bool>,

    /// Checks that determine whether a machine is unhealthy. If `checks` or `remediation` is set, the class is not
    /// used.
    pub checks: Option<MachineHealthCheckChecks>,

    /// How unhealthy machines are remediated, and when remediation is suspended.
    pub remediation: Option<Remediation>,
}

/// How unhealthy machines of a MachineDeployment are remediated, and when remediation is suspended.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct WorkerHealthCheckRemediation {
    /// Maximum number of unhealthy machines that are remediated at the same time: a number, or a percentage rounded up.
    /// Default: no limit.
    #[schemars(with = "Option<crate::schema::IntOrStringSchema>")]
    pub max_in_flight: Option<IntOrString>,

    /// Number of unhealthy machines with which remediation is still allowed. With more, remediation is suspended.
    pub trigger_if: Option<RemediationTrigger>,

    /// Template for external remediation. Default: the owner of the Machine remediates it.
    pub template_ref: Option<RemediationTemplateReference>,
}

/// The workers of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct WorkersTopology {
    /// MachineDeployments of the cluster: each entry becomes one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 2000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub machine_deployments: Vec<MachineDeploymentTopology>,

    /// MachinePools of the cluster: each entry becomes one.
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
    /// Labels and annotations of the MachineDeployment and its machines, in addition to those of the class.
    pub metadata: Option<TemplateMetadata>,

    /// Name of the MachineDeployment class in the ClusterClass.
    #[schemars(length(min = 1, max = 256))]
    pub class: String,

    /// Name of this entry, unique among the MachineDeployments of the topology. It is part of the name of the
    /// MachineDeployment and the value of a label on it.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Failure domain for the machines: one of those in `status.failureDomains` of the Cluster.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,

    /// Desired number of machines. Leave it unset if an autoscaler sets it.
    pub replicas: Option<i32>,

    /// Health check of the machines of this cluster.
    pub health_check: Option<TopologyHealthCheck<WorkerHealthCheckRemediation>>,

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

    /// Additional conditions of the Machine that must be met before it is Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,

    /// When and how changes of the template are rolled out to the machines.
    pub rollout: Option<MachineDeploymentRolloutSpec>,

    /// Values of variables that override those of the cluster for this MachineDeployment.
    pub variables: Option<VariableOverrides>,
}

/// Which Machines of a MachineDeployment are deleted first when scaling down, and the timeouts of their deletion.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct WorkerDeletionSpec {
    /// Order in which Machines are deleted when scaling down: `Random`, `Newest` or `Oldest` first. Machines with the
    /// delete-machine annotation and unhealthy Machines are always deleted first. Default: `Random`.
    pub order: Option<MachineSetDeletionOrder>,

    /// Maximum duration of the drain of the Node, in seconds. Afterwards deletion continues without it. Default: 0, no
    /// limit.
    #[schemars(range(min = 0))]
    pub node_drain_timeout_seconds: Option<i32>,

    /// Maximum time to wait until volumes are detached, in seconds. Afterwards deletion continues. Default: 0, no
    /// limit.
    #[schemars(range(min = 0))]
    pub node_volume_detach_timeout_seconds: Option<i32>,

    /// Maximum time for the deletion of the Node object, in seconds, counted from the deletion of the Machine. 0: no
    /// limit.
    #[schemars(range(min = 0))]
    pub node_deletion_timeout_seconds: Option<i32>,
}

/// A MachinePool of a cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachinePoolTopology {
    /// Labels and annotations of the MachinePool, in addition to those of the class.
    pub metadata: Option<TemplateMetadata>,

    /// Name of the MachinePool class in the ClusterClass.
    #[schemars(length(min = 1, max = 256))]
    pub class: String,

    /// Name of this entry, unique among the MachinePools of the topology. It is part of the name of the MachinePool and
    /// the value of a label on it.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Failure domains that the machines of the pool are spread over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        inner(length(min = 1, max = 256)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub failure_domains: Vec<String>,

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

    /// Desired number of machines. Leave it unset if an autoscaler sets it.
    pub replicas: Option<i32>,

    /// Values of variables that override those of the cluster for this MachinePool.
    pub variables: Option<VariableOverrides>,
}

/// Value of a variable of the class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVariable {
    /// Name of the variable.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,

    /// Value of the variable. It must match the schema of the variable.
    pub value: AnyJson,
}

/// Values of variables that override those of the cluster for a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct VariableOverrides {
    /// The values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 1000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub overrides: Vec<ClusterVariable>,
}
