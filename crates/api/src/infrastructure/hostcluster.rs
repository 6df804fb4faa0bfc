//! HostCluster: the infrastructure that a whole Cluster on Hosts shares.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::conditions::Condition;
use crate::core::FailureDomain;
use crate::meta::{ApiEndpoint, TemplateMetadata};
use crate::schema::cel;

/// Attribute of a failure domain of a HostCluster: number of Hosts in it that a control plane machine can claim now,
/// counted up to 5. Absent while it is unknown.
pub const CLAIMABLE_HOSTS: &str = "capstan.dev/claimable-hosts";

/// The control plane endpoint and the Hosts of a cluster.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([(
        "!has(oldSelf.controlPlaneEndpoint) || \
         (has(self.controlPlaneEndpoint) && self.controlPlaneEndpoint == oldSelf.controlPlaneEndpoint)",
        "controlPlaneEndpoint cannot be changed once it is set, because every kubeconfig and node points to it; \
         make another cluster",
    )])
))]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "HostCluster",
    namespaced,
    status = "HostClusterStatus",
    derive = "PartialEq",
    doc = "The part of a cluster on existing hosts that belongs to no single machine: its endpoint and failure domains.",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = r".metadata.labels['cluster\.x-k8s\.io/cluster-name']",
        description = "Cluster it belongs to"
    ),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".spec.controlPlaneEndpoint.host",
        description = "Host of the control plane endpoint"
    ),
    printcolumn(
        name = "Provisioned",
        type_ = "string",
        json_path = ".status.initialization.provisioned",
        description = "Whether machines can be made"
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
pub struct HostClusterSpec {
    /// Address of the cluster's API server: a virtual IP, a load balancer or a DNS name that you provide, or the
    /// address of the machine if there is only one control plane machine. Default: `spec.controlPlaneEndpoint` of the
    /// Cluster, or a local address if all Hosts are simulated. Immutable once set.
    pub control_plane_endpoint: Option<CompleteApiEndpoint>,

    /// Label selector for the Hosts that this cluster may claim, in addition to the selector of each HostMachine.
    /// Default: all Hosts in the namespace.
    #[schemars(with = "Option<crate::schema::LabelSelectorSchema>")]
    pub host_selector: Option<LabelSelector>,
}

/// Host and port of an API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompleteApiEndpoint {
    /// Host name or IP address.
    #[schemars(length(min = 1, max = 512))]
    pub host: String,

    /// Port. Default: 6443.
    #[serde(default = "api_server_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

const fn api_server_port() -> i32 {
    6443
}

impl From<CompleteApiEndpoint> for ApiEndpoint {
    fn from(endpoint: CompleteApiEndpoint) -> Self {
        Self { host: Some(endpoint.host), port: Some(endpoint.port) }
    }
}

/// Observed state of the infrastructure that the cluster shares. Set by Capstan.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct HostClusterStatus {
    /// Conditions of the object, one entry for each type. Set by the controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// Progress of the first provisioning. Set by the controllers.
    pub initialization: Option<ProvisionedStatus>,

    /// Failure domains of the Hosts that this cluster may claim. `controlPlane` is true if a control plane machine can
    /// claim a Host in it now, or already has one. The attribute `capstan.dev/claimable-hosts` is the number of Hosts
    /// that a control plane machine can claim now, counted up to 5; it is absent while it is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub failure_domains: Vec<FailureDomain>,
}

/// Whether an infrastructure object is provisioned.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct ProvisionedStatus {
    /// True once the provider has set everything that the Cluster API contract requires. It stays true.
    pub provisioned: Option<bool>,
}

/// The template for HostClusters.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "HostClusterTemplate",
    namespaced,
    derive = "PartialEq",
    doc = "A template from which a ClusterClass makes HostClusters.",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct HostClusterTemplateSpec {
    /// The template: metadata and spec of the HostClusters.
    pub template: HostClusterTemplateResource,
}

/// Metadata and spec of the HostClusters made from a template.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostClusterTemplateResource {
    /// Labels and annotations of the HostClusters.
    pub metadata: Option<TemplateMetadata>,

    /// Spec of the HostClusters.
    pub spec: HostClusterSpec,
}
