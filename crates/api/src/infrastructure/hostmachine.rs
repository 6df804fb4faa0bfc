//! HostMachine: claims a Host for a Machine.

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

/// Which Host the machine may use, and which one it uses.
///
/// `hostName`, `claimID` and `providerID` record decisions. They are in spec so that a move to another management plane
/// keeps them.
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
    /// Provider ID of the machine, which is also the `spec.providerID` of its Node. Set by Capstan. Immutable once set.
    #[serde(rename = "providerID")]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: Option<String>,

    /// Label selector for the Hosts that may be claimed. Default: all Hosts in the namespace.
    #[schemars(with = "Option<crate::schema::LabelSelectorSchema>")]
    pub host_selector: Option<LabelSelector>,

    /// Name of the Host. Set it to request a specific Host; otherwise Capstan sets it to the Host that it claims.
    /// Immutable once set.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub host_name: Option<String>,

    /// ID that ties this object to the claim on its Host. It stays valid after a move to another management plane,
    /// where both objects get new UIDs. Set by Capstan before it claims a Host. Immutable once set.
    #[serde(rename = "claimID")]
    #[schemars(length(min = 1, max = 64))]
    pub claim_id: Option<String>,
}

/// Observed state of the machine. Set by Capstan.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct HostMachineStatus {
    /// Conditions of the object, one entry for each type. Set by the controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// Progress of the first provisioning. Set by the controllers.
    pub initialization: Option<ProvisionedStatus>,

    /// Addresses of the machine, from its Host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<MachineAddress>,

    /// Failure domain of the machine, from its Host.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
}

/// The template for HostMachines.
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
    /// The template: metadata and spec of the HostMachines.
    pub template: HostMachineTemplateResource,
}

/// Metadata and spec of the HostMachines made from a template.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostMachineTemplateResource {
    /// Labels and annotations of the HostMachines.
    pub metadata: Option<TemplateMetadata>,

    /// Spec of the HostMachines, without the fields that belong to one machine.
    pub spec: HostMachineTemplateResourceSpec,
}

/// The fields of a HostMachine spec that can be in a template: without `hostName`, `claimID` and `providerID`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostMachineTemplateResourceSpec {
    /// Label selector for the Hosts that may be claimed. Default: all Hosts in the namespace.
    #[schemars(with = "Option<crate::schema::LabelSelectorSchema>")]
    pub host_selector: Option<LabelSelector>,
}

/// What is known of machines made from this template before they exist.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostMachineTemplateStatus {
    /// Resources that every Host that the template may claim has at least, as Kubernetes quantities. Capstan does not
    /// set it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, crate::schema::QuantitySchema>")]
    pub capacity: BTreeMap<String, Quantity>,

    /// Architecture and operating system that these Hosts share. Capstan does not set it.
    pub node_info: Option<TemplateNodeInfo>,

    /// Number of Hosts that a machine made from this template can claim now: exact up to 20, then rounded down to its
    /// first digit. Set by Capstan; absent while it is unknown. A machine is replaced only while there is at least one.
    #[schemars(range(min = 0))]
    pub claimable_hosts: Option<i32>,
}

/// Architecture and operating system of machines made from a template.
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
