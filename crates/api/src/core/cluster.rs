//! Cluster: one workload cluster, and what the management side knows of it.

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

/// What the cluster should be.
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

    /// Addresses and names inside the cluster.
    pub cluster_network: Option<ClusterNetwork>,

    /// Where the cluster's API server is reached. Copied from the infrastructure cluster or the control plane
    /// unless it is set here.
    pub control_plane_endpoint: Option<ApiEndpoint>,

    /// The control plane provider's object. Can be changed, but not taken away.
    pub control_plane_ref: Option<ContractVersionedObjectReference>,

    /// The infrastructure provider's object. Can be changed, but not taken away.
    pub infrastructure_ref: Option<ContractVersionedObjectReference>,

    /// The cluster in short, made from a ClusterClass, which fills in all the rest.
    pub topology: Option<Topology>,

    /// More conditions that must hold before the cluster is Available. Counts instead of the list of the
    /// ClusterClass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub availability_gates: Vec<ConditionGate>,
}

/// Addresses and names inside a cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterNetwork {
    /// Port on which API servers should listen. 6443 with most providers when unset.
    #[schemars(range(min = 1, max = 65535))]
    pub api_server_port: Option<i32>,

    /// Where Services get their addresses from.
    pub services: Option<NetworkRanges>,

    /// Where Pods get their addresses from.
    pub pods: Option<NetworkRanges>,

    /// DNS domain of Services.
    #[schemars(length(min = 1, max = 253))]
    pub service_domain: Option<String>,
}

/// Ranges of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkRanges {
    /// The ranges in CIDR notation, such as `10.244.0.0/16`; one for each address family.
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

/// What is known of the cluster.
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

    /// How far the first provisioning has come. Once true, these stay true.
    pub initialization: Option<ClusterInitializationStatus>,

    /// The control plane's machines in numbers.
    pub control_plane: Option<ClusterReplicasStatus>,

    /// The workers in numbers: all MachineDeployments, MachineSets, MachinePools and Machines that stand alone.
    pub workers: Option<ClusterReplicasStatus>,

    /// Failure domains that machines can be placed in, copied from the infrastructure cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub failure_domains: Vec<FailureDomain>,

    /// Where the cluster is in its life, in one word, for people. Programs read conditions.
    pub phase: Option<ClusterPhase>,

    /// The generation that core has seen.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,

    /// Fields of earlier API versions.
    pub deprecated: Option<Deprecated<V1Beta1Failure>>,
}

/// How far the first provisioning of a cluster has come.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterInitializationStatus {
    /// The infrastructure provider has said that what the whole cluster needs exists.
    pub infrastructure_provisioned: Option<bool>,

    /// The control plane has answered for the first time, so that others can join.
    pub control_plane_initialized: Option<bool>,
}

/// A cluster's control plane or workers in numbers.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReplicasStatus {
    /// How many machines are wanted.
    pub desired_replicas: Option<i32>,

    /// How many machines there are, those on their way out included.
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

    /// Kubernetes versions still to go through, next one first, on the way to the one the topology asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub upgrade_plan: Vec<StatusUpgradePlanVersion>,
}

/// One stop on the way of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusUpgradePlanVersion {
    /// Kubernetes version, with its leading `v`.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
}

/// A part of the infrastructure that can fail without the rest: a zone, a rack, a host.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomain {
    /// Name of the failure domain.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,

    /// Whether control plane machines may be placed here.
    pub control_plane: Option<bool>,

    /// What else the infrastructure provider says of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// Where a cluster is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClusterPhase {
    /// Nothing has happened yet.
    Pending,
    /// The infrastructure is being made.
    Provisioning,
    /// The infrastructure is there and the endpoint is known.
    Provisioned,
    /// The cluster is being deleted.
    Deleting,
    /// A terminal failure was reported the v1beta1 way.
    Failed,
    /// None of the above fits.
    Unknown,
}
