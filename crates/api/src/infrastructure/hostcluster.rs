//! HostCluster: what a Cluster on hosts needs as a whole.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::conditions::Condition;
use crate::core::FailureDomain;
use crate::meta::{ApiEndpoint, TemplateMetadata};
use crate::schema::cel;

/// Attribute of a failure domain of a HostCluster: how many hosts in it a control plane machine can claim now, counted
/// up to 5. Absent while that is not known.
pub const CLAIMABLE_HOSTS: &str = "capstan.dev/claimable-hosts";

/// What the cluster needs as a whole.
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
    /// Where the API server of the cluster is reached: a virtual address, a load balancer or a DNS name you
    /// look after; for a single control plane machine, its own address. On simulated hosts Capstan fills in a
    /// local one when this is unset. Cannot be changed once set.
    pub control_plane_endpoint: Option<CompleteApiEndpoint>,

    /// Which hosts this cluster may claim, beside what each HostMachine asks for. Any when unset.
    pub host_selector: Option<LabelSelector>,
}

/// Where an API server is reached, with nothing left open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompleteApiEndpoint {
    /// Host name or address.
    #[schemars(length(min = 1, max = 512))]
    pub host: String,

    /// Port. 6443 when unset.
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

/// What is known of the cluster as a whole.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct HostClusterStatus {
    /// What was observed, one entry for each type of condition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// How far the first provisioning has come.
    pub initialization: Option<ProvisionedStatus>,

    /// Failure domains of the hosts this cluster may claim. `controlPlane` is true where a control plane machine can
    /// claim a host now, or already has one. The attribute `capstan.dev/claimable-hosts` is the number of hosts that a
    /// control plane machine can claim now, counted up to 5; it is absent while that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub failure_domains: Vec<FailureDomain>,
}

/// Whether an infrastructure object has been provisioned.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct ProvisionedStatus {
    /// True once everything the contract asks for is there. Stays true.
    pub provisioned: Option<bool>,
}

/// What HostClusters made from the template look like.
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
    /// The HostCluster to make.
    pub template: HostClusterTemplateResource,
}

/// The HostCluster to make.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostClusterTemplateResource {
    /// Labels and annotations of the HostCluster.
    pub metadata: Option<TemplateMetadata>,

    /// Spec of the HostCluster.
    pub spec: HostClusterSpec,
}
