//! Machine: one machine of a cluster, with references to its bootstrap and infrastructure objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::deprecated::{Deprecated, V1Beta1Failure};
use crate::conditions::Condition;
use crate::meta::{ConditionGate, ContractVersionedObjectReference};
use crate::schema::{DNS_SUBDOMAIN, LABEL_VALUE, TAINT_KEY, immutable, kubernetes_version};

/// Desired state of the machine.
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
    /// Name of the Cluster that the Machine belongs to. Immutable.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = immutable()))]
    pub cluster_name: String,

    /// Source of the bootstrap data.
    pub bootstrap: Bootstrap,

    /// The infrastructure machine of this Machine.
    pub infrastructure_ref: ContractVersionedObjectReference,

    /// Kubernetes version with a leading `v`.
    #[schemars(length(min = 1, max = 256), extend("x-kubernetes-validations" = kubernetes_version()))]
    pub version: Option<String>,

    /// Provider ID of the machine, copied from the infrastructure machine. The Node with the same provider ID is the
    /// Node of this Machine.
    #[serde(rename = "providerID")]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: Option<String>,

    /// Failure domain for the machine: one of those in `status.failureDomains` of the Cluster.
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

    /// Taints that core sets on the Node. Taints from other sources are not changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
    )]
    pub taints: Vec<MachineTaint>,
}

/// Source of the bootstrap data: an object of a bootstrap provider, or a Secret that the user creates.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// Object of a bootstrap provider that creates the data. Leave it unset to use your own Secret.
    pub config_ref: Option<ContractVersionedObjectReference>,

    /// Name of the Secret with the bootstrap data. Copied from the bootstrap object if there is one.
    #[schemars(length(min = 0, max = 253))]
    pub data_secret_name: Option<String>,
}

/// Timeouts for the steps of the deletion of a Machine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeletionSpec {
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

/// A taint of a machine's Node.
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

    /// Effect on pods that do not tolerate the taint: `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: TaintEffect,

    /// `Always`: core adds the taint again if it is missing. `OnInitialization`: core sets the taint only once, when
    /// the Node first appears.
    pub propagation: TaintPropagation,
}

/// Effects of a taint on pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// New pods are not scheduled on the Node.
    NoSchedule,
    /// New pods are scheduled on the Node only if no other Node is suitable.
    PreferNoSchedule,
    /// As `NoSchedule`, and running pods are evicted.
    NoExecute,
}

/// How long core maintains a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintPropagation {
    /// Core adds the taint again if it is missing.
    Always,
    /// Core sets the taint only once, when the Node first appears.
    OnInitialization,
}

/// Observed state of the machine. Set by core.
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

    /// Progress of the first provisioning. A field that is true stays true.
    pub initialization: Option<MachineInitializationStatus>,

    /// The Node of this Machine.
    pub node_ref: Option<MachineNodeReference>,

    /// System information of the Node.
    pub node_info: Option<NodeSystemInfo>,

    /// Time of the last change of the phase.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub last_updated: Option<Time>,

    /// Addresses of the machine, copied from its infrastructure machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<MachineAddress>,

    /// Failure domain in which the machine was placed.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,

    /// Summary of the state, for display. Programs should read conditions instead.
    pub phase: Option<MachinePhase>,

    /// When the certificates on this control plane machine expire.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub certificates_expiry_date: Option<Time>,

    /// `metadata.generation` of the spec that this status describes. Set by core.
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,

    /// Start times of the steps of the deletion.
    pub deletion: Option<MachineDeletionStatus>,

    /// Deprecated fields of earlier API versions.
    pub deprecated: Option<Deprecated<V1Beta1Failure>>,
}

/// Progress of the first provisioning of a machine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineInitializationStatus {
    /// True once the infrastructure provider reports that the machine is provisioned.
    pub infrastructure_provisioned: Option<bool>,

    /// True once the bootstrap provider reports that the Secret with the bootstrap data exists.
    pub bootstrap_data_secret_created: Option<bool>,
}

/// Reference to the Node of a Machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineNodeReference {
    /// Name of the Node.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
}

/// System information of a Node.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSystemInfo {
    /// Machine ID of the operating system.
    #[serde(rename = "machineID")]
    pub machine_id: String,

    /// System UUID of the hardware or of the virtual machine.
    #[serde(rename = "systemUUID")]
    pub system_uuid: String,

    /// Boot ID of the kernel. It changes with every boot.
    #[serde(rename = "bootID")]
    pub boot_id: String,

    /// Kernel version.
    pub kernel_version: String,

    /// Name of the operating system image.
    pub os_image: String,

    /// Container runtime and its version.
    pub container_runtime_version: String,

    /// Version of the kubelet.
    pub kubelet_version: String,

    /// Version of kube-proxy. Kubernetes no longer sets it.
    pub kube_proxy_version: String,

    /// Operating system, such as `linux`.
    pub operating_system: String,

    /// Processor architecture, such as `amd64`.
    pub architecture: String,

    /// Swap of the Node.
    pub swap: Option<NodeSwapStatus>,
}

/// Swap of a Node.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeSwapStatus {
    /// Size of the swap in bytes.
    pub capacity: Option<i64>,
}

/// One address of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineAddress {
    /// Type of the address: `Hostname`, `ExternalIP`, `InternalIP`, `ExternalDNS` or `InternalDNS`.
    #[serde(rename = "type")]
    pub type_: MachineAddressType,

    /// The address.
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
}

/// Types of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum MachineAddressType {
    /// Host name of the machine.
    Hostname,
    /// IP address that can be reached from outside the machine's network.
    ExternalIP,
    /// IP address in the machine's network.
    InternalIP,
    /// DNS name that can be resolved outside the machine's network.
    ExternalDNS,
    /// DNS name in the machine's network.
    InternalDNS,
}

/// Summary of the state of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MachinePhase {
    /// Provisioning has not started.
    Pending,
    /// The bootstrap data exists; the infrastructure is being provisioned.
    Provisioning,
    /// The infrastructure is provisioned; there is no Node yet.
    Provisioned,
    /// The Node exists.
    Running,
    /// The machine is being updated in place.
    Updating,
    /// The machine is being deleted.
    Deleting,
    /// The infrastructure is deleted.
    Deleted,
    /// A terminal failure was reported in the v1beta1 fields.
    Failed,
    /// The phase cannot be determined.
    Unknown,
}

/// Start times of the steps of the deletion of a Machine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeletionStatus {
    /// Time at which the Machine began to wait for pre-drain hooks.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub wait_for_pre_drain_hook_start_time: Option<Time>,

    /// Time at which the drain of the Node began.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub node_drain_start_time: Option<Time>,

    /// Time at which the Machine began to wait until volumes are detached.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub wait_for_node_volume_detach_start_time: Option<Time>,

    /// Time at which the Machine began to wait for pre-terminate hooks.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub wait_for_pre_terminate_hook_start_time: Option<Time>,
}
