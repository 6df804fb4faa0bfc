//! Machine: one machine of a cluster, and the hand-offs that turn it into a Node.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::deprecated::{Deprecated, V1Beta1Failure};
use crate::conditions::Condition;
use crate::meta::{ConditionGate, ContractVersionedObjectReference};
use crate::schema::{DNS_SUBDOMAIN, LABEL_VALUE, TAINT_KEY, immutable, kubernetes_version};

/// What the machine should be.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Machine",
    namespaced,
    status = "MachineStatus",
    derive = "PartialEq",
    doc = "A machine that becomes, or is, a Node of a cluster.",
    shortname = "ma",
    category = "cluster-api",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterName",
        description = "Cluster"
    ),
    printcolumn(
        name = "Node Name",
        type_ = "string",
        json_path = ".status.nodeRef.name",
        description = "Node that the machine became"
    ),
    printcolumn(
        name = "Provider ID",
        type_ = "string",
        json_path = ".spec.providerID",
        priority = 10,
        description = "Identity of the machine at its infrastructure provider"
    ),
    printcolumn(
        name = "Failure domain",
        type_ = "string",
        json_path = ".status.failureDomain",
        description = "Failure domain in which the machine runs"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Whether the machine works as it should"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].status"#,
        description = "Whether the machine has been ready for minReadySeconds"
    ),
    printcolumn(
        name = "Up-to-date",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="UpToDate")].status"#,
        description = "Whether the machine matches what its owner wants now"
    ),
    printcolumn(
        name = "Internal-IP",
        type_ = "string",
        json_path = r#".status.addresses[?(@.type=="InternalIP")].address"#,
        priority = 10,
        description = "Internal address of the machine"
    ),
    printcolumn(
        name = "External-IP",
        type_ = "string",
        json_path = r#".status.addresses[?(@.type=="ExternalIP")].address"#,
        priority = 10,
        description = "External address of the machine"
    ),
    printcolumn(
        name = "OS-Image",
        type_ = "string",
        json_path = ".status.nodeInfo.osImage",
        priority = 10,
        description = "Operating system of the machine"
    ),
    printcolumn(
        name = "Paused",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Paused")].status"#,
        priority = 10,
        description = "Whether reconciliation is paused"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase", description = "Phase"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    ),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version", description = "Version")
)]
pub struct MachineSpec {
    /// Name of the Cluster this machine belongs to. Cannot be changed.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = immutable()))]
    pub cluster_name: String,

    /// Where the data comes from that the machine starts with.
    pub bootstrap: Bootstrap,

    /// The infrastructure machine of this Machine.
    pub infrastructure_ref: ContractVersionedObjectReference,

    /// Kubernetes version of the machine, with its leading `v`.
    #[schemars(length(min = 1, max = 256), extend("x-kubernetes-validations" = kubernetes_version()))]
    pub version: Option<String>,

    /// Identity of the machine at its infrastructure provider. Copied from the infrastructure machine; the
    /// Node that carries the same identity is this machine's Node.
    #[serde(rename = "providerID")]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: Option<String>,

    /// Failure domain the machine should be placed in: one of those the Cluster's status lists.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,

    /// How long the machine must have been ready before it counts as available. 0 when unset.
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,

    /// More conditions that must hold before the machine is Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
    )]
    pub readiness_gates: Vec<ConditionGate>,

    /// Timeouts for the steps of the deletion of this Machine.
    pub deletion: Option<MachineDeletionSpec>,

    /// Taints for the machine's Node, beside those that others put there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,
}

/// Where a machine's bootstrap data comes from: a bootstrap provider's object, or a Secret made by hand.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// The bootstrap provider's object that makes the data. Leave it out to bring your own Secret.
    pub config_ref: Option<ContractVersionedObjectReference>,

    /// Name of the Secret with the bootstrap data. Filled in from the bootstrap object when there is one.
    #[schemars(length(min = 0, max = 253))]
    pub data_secret_name: Option<String>,
}

/// How long the steps of a machine's deletion may take.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeletionSpec {
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

/// A taint for a machine's Node.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineTaint {
    /// Key of the taint.
    #[schemars(length(min = 1, max = 317), regex(pattern = TAINT_KEY))]
    pub key: String,

    /// Value of the taint.
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_VALUE))]
    pub value: Option<String>,

    /// What the taint does to pods that do not tolerate it.
    pub effect: TaintEffect,

    /// Whether the taint is kept on the Node, or put there once and then left alone.
    pub propagation: TaintPropagation,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// New pods are not scheduled here.
    NoSchedule,
    /// New pods are scheduled here only if there is no better place.
    PreferNoSchedule,
    /// Running pods are evicted as well.
    NoExecute,
}

/// How long core looks after a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintPropagation {
    /// Put back whenever it is missing.
    Always,
    /// Put on the Node when it first appears, never again.
    OnInitialization,
}

/// What is known of the machine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineStatus {
    /// Conditions of the object, one entry for each type. Set by the controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// How far the first provisioning has come. Once true, these stay true.
    pub initialization: Option<MachineInitializationStatus>,

    /// The Node this machine became.
    pub node_ref: Option<MachineNodeReference>,

    /// What the Node says of its operating system and versions.
    pub node_info: Option<NodeSystemInfo>,

    /// When the phase last changed.
    pub last_updated: Option<Time>,

    /// Addresses of the machine, copied from its infrastructure machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<MachineAddress>,

    /// Failure domain the machine was placed in.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,

    /// Where the machine is in its life, in one word, for people. Programs read conditions.
    pub phase: Option<MachinePhase>,

    /// When the certificates on this control plane machine expire.
    pub certificates_expiry_date: Option<Time>,

    /// The generation that core has seen.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,

    /// Since when each step of the deletion has been waiting.
    pub deletion: Option<MachineDeletionStatus>,

    /// Fields of earlier API versions.
    pub deprecated: Option<Deprecated<V1Beta1Failure>>,
}

/// How far the first provisioning of a machine has come.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineInitializationStatus {
    /// The infrastructure provider has said that the machine exists.
    pub infrastructure_provisioned: Option<bool>,

    /// The bootstrap provider has said that the bootstrap data exists.
    pub bootstrap_data_secret_created: Option<bool>,
}

/// Names the Node a machine became.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineNodeReference {
    /// Name of the Node.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
}

/// What a Node says of its operating system and versions.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSystemInfo {
    /// Machine ID of the operating system.
    #[serde(rename = "machineID")]
    pub machine_id: String,

    /// UUID of the hardware or the virtual machine.
    #[serde(rename = "systemUUID")]
    pub system_uuid: String,

    /// Changes with every boot.
    #[serde(rename = "bootID")]
    pub boot_id: String,

    /// Version of the kernel.
    pub kernel_version: String,

    /// Name of the operating system image.
    pub os_image: String,

    /// Container runtime and its version.
    pub container_runtime_version: String,

    /// Version of the kubelet.
    pub kubelet_version: String,

    /// Version of kube-proxy. No longer kept up by Kubernetes.
    pub kube_proxy_version: String,

    /// Operating system, such as `linux`.
    pub operating_system: String,

    /// Processor architecture, such as `amd64`.
    pub architecture: String,

    /// Swap of the machine.
    pub swap: Option<NodeSwapStatus>,
}

/// Swap of a machine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeSwapStatus {
    /// Size of the swap in bytes.
    pub capacity: Option<i64>,
}

/// One address of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineAddress {
    /// What kind of address it is.
    #[serde(rename = "type")]
    pub type_: MachineAddressType,

    /// The address.
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
}

/// Kinds of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum MachineAddressType {
    /// The machine's own name.
    Hostname,
    /// An address that can be reached from outside.
    ExternalIP,
    /// An address inside the machine's network.
    InternalIP,
    /// A DNS name that can be resolved outside.
    ExternalDNS,
    /// A DNS name inside the machine's network.
    InternalDNS,
}

/// Where a machine is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MachinePhase {
    /// Nothing has happened yet.
    Pending,
    /// Bootstrap data is there; the infrastructure is being made.
    Provisioning,
    /// The infrastructure is there; the Node is not.
    Provisioned,
    /// The Node is there.
    Running,
    /// The machine is being changed in place.
    Updating,
    /// The machine is being deleted.
    Deleting,
    /// The infrastructure is gone.
    Deleted,
    /// A terminal failure was reported the v1beta1 way.
    Failed,
    /// None of the above fits.
    Unknown,
}

/// Since when each step of a machine's deletion has been waiting.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeletionStatus {
    /// When waiting for pre-drain hooks began.
    pub wait_for_pre_drain_hook_start_time: Option<Time>,

    /// When the drain of the Node began.
    pub node_drain_start_time: Option<Time>,

    /// When waiting for volumes to be detached began.
    pub wait_for_node_volume_detach_start_time: Option<Time>,

    /// When waiting for pre-terminate hooks began.
    pub wait_for_pre_terminate_hook_start_time: Option<Time>,
}
