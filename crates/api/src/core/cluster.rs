//! Cluster: one workload cluster.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

use super::Topology;
use super::deprecated::{Deprecated, V1Beta1Failure};
use crate::conditions::Condition;
use crate::meta::{ApiEndpoint, ConditionGate, ContractVersionedObjectReference, StatusVersion};
use crate::schema::cel;

/// Desired state of the cluster.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "minProperties" = 1,
    "x-kubernetes-validations" = cel([
        (
            "has(self.topology) || has(self.controlPlaneRef) || has(self.infrastructureRef)",
            "one of topology, controlPlaneRef and infrastructureRef must be set",
        ),
        (
            "has(self.topology) || !has(oldSelf.topology)",
            "topology cannot be removed; to be rid of it, delete the Cluster",
        ),
        (
            "has(self.controlPlaneRef) || !has(oldSelf.controlPlaneRef)",
            "controlPlaneRef cannot be removed; it may name another object, or the Cluster may be deleted",
        ),
        (
            "has(self.infrastructureRef) || !has(oldSelf.infrastructureRef)",
            "infrastructureRef cannot be removed; it may name another object, or the Cluster may be deleted",
        ),
    ])
))]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Cluster",
    namespaced,
    status = "ClusterStatus",
    derive = "PartialEq",
    doc = "A Kubernetes cluster that is made and kept from here.",
    shortname = "cl",
    category = "cluster-api",
    validation = Rule::new("size(self.metadata.name) <= 63").message(
        "metadata.name must have at most 63 characters, because it becomes a label value"
    ),
    printcolumn(
        name = "ClusterClass",
        type_ = "string",
        json_path = ".spec.topology.classRef.name",
        description = "ClusterClass the cluster is made from"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].status"#,
        description = "Whether the cluster can be used"
    ),
    printcolumn(
        name = "CP Desired",
        type_ = "integer",
        json_path = ".status.controlPlane.desiredReplicas",
        description = "How many control plane machines are wanted"
    ),
    printcolumn(
        name = "CP Current",
        type_ = "integer",
        json_path = ".status.controlPlane.replicas",
        priority = 10,
        description = "How many control plane machines there are"
    ),
    printcolumn(
        name = "CP Ready",
        type_ = "integer",
        json_path = ".status.controlPlane.readyReplicas",
        priority = 10,
        description = "How many control plane machines are ready"
    ),
    printcolumn(
        name = "CP Available",
        type_ = "integer",
        json_path = ".status.controlPlane.availableReplicas",
        description = "How many control plane machines are available"
    ),
    printcolumn(
        name = "CP Up-to-date",
        type_ = "integer",
        json_path = ".status.controlPlane.upToDateReplicas",
        description = "How many control plane machines are as they should be"
    ),
    printcolumn(
        name = "W Desired",
        type_ = "integer",
        json_path = ".status.workers.desiredReplicas",
        description = "How many workers are wanted"
    ),
    printcolumn(
        name = "W Current",
        type_ = "integer",
        json_path = ".status.workers.replicas",
        priority = 10,
        description = "How many workers there are"
    ),
    printcolumn(
        name = "W Ready",
        type_ = "integer",
        json_path = ".status.workers.readyReplicas",
        priority = 10,
        description = "How many workers are ready"
    ),
    printcolumn(
        name = "W Available",
        type_ = "integer",
        json_path = ".status.workers.availableReplicas",
        description = "How many workers are available"
    ),
    printcolumn(
        name = "W Up-to-date",
        type_ = "integer",
        json_path = ".status.workers.upToDateReplicas",
        description = "How many workers are as they should be"
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
        json_path = ".spec.topology.version",
        description = "Kubernetes version of the topology"
    )
)]
pub struct ClusterSpec {
    /// While true, controllers do not reconcile the Cluster or the objects that belong to it.
    pub paused: Option<bool>,

    /// Network settings of the cluster.
    pub cluster_network: Option<ClusterNetwork>,

    /// Address of the cluster's API server. Default: copied from the infrastructure cluster or from the control plane.
    pub control_plane_endpoint: Option<ApiEndpoint>,

    /// The object of the control plane provider. It can be changed, but not removed.
    pub control_plane_ref: Option<ContractVersionedObjectReference>,

    /// The object of the infrastructure provider. It can be changed, but not removed.
    pub infrastructure_ref: Option<ContractVersionedObjectReference>,

    /// Managed topology: the cluster is created from a ClusterClass, and core sets the references.
    pub topology: Option<Topology>,

    /// Additional conditions that must be met before the cluster is Available. Overrides the list of the ClusterClass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub availability_gates: Vec<ConditionGate>,
}

/// Network settings of a cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterNetwork {
    /// Port on which the API servers listen. Default: up to the provider, usually 6443.
    #[schemars(range(min = 1, max = 65535))]
    pub api_server_port: Option<i32>,

    /// Address ranges of Services.
    pub services: Option<NetworkRanges>,

    /// Address ranges of Pods.
    pub pods: Option<NetworkRanges>,

    /// DNS domain of Services.
    #[schemars(length(min = 1, max = 253))]
    pub service_domain: Option<String>,
}

/// Address ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkRanges {
    /// Ranges in CIDR notation, such as `10.244.0.0/16`; one for each address family.
    #[schemars(
        length(min = 1, max = 100),
        inner(length(min = 1, max = 43)),
        extend(
            "x-kubernetes-list-type" = "atomic",
            "x-kubernetes-validations" = cel([(
                "self.all(block, isCIDR(block))",
                "every entry must be a range in CIDR notation, such as 10.244.0.0/16 or fd00:10::/64",
            )])
        )
    )]
    pub cidr_blocks: Vec<String>,
}

/// Observed state of the cluster. Set by core.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterStatus {
    /// Conditions of the object, one entry for each type. Set by the controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// Progress of the first provisioning. A field that is true stays true.
    pub initialization: Option<ClusterInitializationStatus>,

    /// Numbers of control plane machines.
    pub control_plane: Option<ClusterReplicasStatus>,

    /// Numbers of workers: those of MachineDeployments, MachineSets and MachinePools, and standalone Machines.
    pub workers: Option<ClusterReplicasStatus>,

    /// Failure domains in which machines can be placed, copied from the infrastructure cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub failure_domains: Vec<FailureDomain>,

    /// Summary of the state, for display. Programs should read conditions instead.
    pub phase: Option<ClusterPhase>,

    /// `metadata.generation` of the spec that this status describes. Set by core.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,

    /// Deprecated fields of earlier API versions.
    pub deprecated: Option<Deprecated<V1Beta1Failure>>,
}

/// Progress of the first provisioning of a cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterInitializationStatus {
    /// True once the infrastructure provider reports that the infrastructure of the cluster is provisioned.
    pub infrastructure_provisioned: Option<bool>,

    /// True once the control plane is initialized, so that other machines can join.
    pub control_plane_initialized: Option<bool>,
}

/// Numbers of machines of a control plane or of the workers.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReplicasStatus {
    /// Desired number of machines.
    pub desired_replicas: Option<i32>,

    /// Number of machines, including those that are being deleted.
    pub replicas: Option<i32>,

    /// Number of machines that are UpToDate.
    pub up_to_date_replicas: Option<i32>,

    /// Number of machines that are Ready.
    pub ready_replicas: Option<i32>,

    /// Number of machines that are Available.
    pub available_replicas: Option<i32>,

    /// Kubernetes versions of the machines, oldest first, with the number of machines of each version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub versions: Vec<StatusVersion>,

    /// Kubernetes versions through which the upgrade to the topology's version still has to go, next one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub upgrade_plan: Vec<StatusUpgradePlanVersion>,
}

/// One version of an upgrade plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusUpgradePlanVersion {
    /// Kubernetes version with a leading `v`.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
}

/// A part of the infrastructure that can fail independently, such as a zone or a rack.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomain {
    /// Name of the failure domain.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,

    /// Whether control plane machines can be placed in this failure domain.
    pub control_plane: Option<bool>,

    /// Additional attributes, set by the infrastructure provider.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// Summary of the state of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClusterPhase {
    /// Provisioning has not started.
    Pending,
    /// The infrastructure is being provisioned.
    Provisioning,
    /// The infrastructure is provisioned and the control plane endpoint is known.
    Provisioned,
    /// The cluster is being deleted.
    Deleting,
    /// A terminal failure was reported in the v1beta1 fields.
    Failed,
    /// The phase cannot be determined.
    Unknown,
}
