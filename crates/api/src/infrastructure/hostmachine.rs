//! HostMachine: claims a host for a Machine.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

use super::ProvisionedStatus;
use crate::conditions::Condition;
use crate::core::MachineAddress;
use crate::meta::TemplateMetadata;
use crate::schema::{DNS_SUBDOMAIN, cel, set_once};

/// Which host the machine should be, and which it is.
///
/// `hostName`, `claimID` and `providerID` together say what has been decided: they are in spec so that a
/// move to another management plane keeps them.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([
        set_once!("providerID"),
        set_once!("claimID"),
        set_once!("hostName"),
    ])
))]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "HostMachine",
    namespaced,
    status = "HostMachineStatus",
    derive = "PartialEq",
    doc = "Claims a host for a Machine and starts it with the Machine's bootstrap data.",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = r".metadata.labels['cluster\.x-k8s\.io/cluster-name']",
        description = "Cluster it belongs to"
    ),
    printcolumn(
        name = "Host",
        type_ = "string",
        json_path = ".spec.hostName",
        description = "Host that was claimed"
    ),
    printcolumn(
        name = "Provider ID",
        type_ = "string",
        json_path = ".spec.providerID",
        priority = 10,
        description = "Identity of the machine"
    ),
    printcolumn(
        name = "Provisioned",
        type_ = "string",
        json_path = ".status.initialization.provisioned",
        description = "Whether the host has been started with the bootstrap data"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Whether it works as it should"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct HostMachineSpec {
    /// Identity of the machine, which its Node carries too. Filled in by Capstan; cannot be changed once set.
    #[serde(rename = "providerID")]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: Option<String>,

    /// Which hosts may be claimed. Any when unset.
    pub host_selector: Option<LabelSelector>,

    /// The host: set it to ask for a certain one, otherwise Capstan fills in the one it has claimed. Cannot be
    /// changed once set.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub host_name: Option<String>,

    /// What ties this object to the claim on its host, also after both have been moved to another management
    /// plane and have other UIDs. Filled in by Capstan before it claims a host; cannot be changed once set.
    #[serde(rename = "claimID")]
    #[schemars(length(min = 1, max = 64))]
    pub claim_id: Option<String>,
}

/// What is known of the machine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct HostMachineStatus {
    /// What was observed, one entry for each type of condition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// How far the first provisioning has come.
    pub initialization: Option<ProvisionedStatus>,

    /// Addresses of the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<MachineAddress>,

    /// Failure domain of the host.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
}

/// What HostMachines made from the template look like.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "HostMachineTemplate",
    namespaced,
    status = "HostMachineTemplateStatus",
    derive = "PartialEq",
    doc = "A template from which control planes and MachineSets make HostMachines.",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct HostMachineTemplateSpec {
    /// The HostMachine to make.
    pub template: HostMachineTemplateResource,
}

/// The HostMachine to make.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostMachineTemplateResource {
    /// Labels and annotations of the HostMachine.
    pub metadata: Option<TemplateMetadata>,

    /// Spec of the HostMachine, without what belongs to one machine alone.
    pub spec: HostMachineTemplateResourceSpec,
}

/// What many HostMachines have in common: no host, no claim and no identity.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostMachineTemplateResourceSpec {
    /// Which hosts may be claimed. Any when unset.
    pub host_selector: Option<LabelSelector>,
}

/// What is known of machines that do not exist yet.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostMachineTemplateStatus {
    /// Resources that every host this template may claim has at least.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Quantity>,

    /// Architecture and operating system that all of them share.
    pub node_info: Option<TemplateNodeInfo>,

    /// How many hosts a machine made from this template can claim now: clean, reachable, and free. Absent while that is not
    /// known. A machine is replaced only while there is one.
    #[schemars(range(min = 0))]
    pub claimable_hosts: Option<i32>,
}

/// Architecture and operating system of machines that do not exist yet.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TemplateNodeInfo {
    /// Processor architecture, such as `amd64`.
    #[schemars(length(min = 1, max = 32))]
    pub architecture: Option<String>,

    /// Operating system, such as `linux`.
    #[schemars(length(min = 1, max = 32))]
    pub operating_system: Option<String>,
}
