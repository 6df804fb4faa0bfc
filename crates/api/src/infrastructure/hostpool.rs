//! HostPool: where hosts come from.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{SecretReference, SimulatedHost, SshAccess};
use crate::conditions::Condition;
use crate::meta::TemplateMetadata;
use crate::schema::{DNS_SUBDOMAIN, cel};

/// Where the hosts of the pool come from, and what they have in common.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([
        (
            "[has(self.static), has(self.nspawn), has(self.simulated)].exists_one(x, x)",
            "set exactly one of static, nspawn and simulated: hosts come from one place",
        ),
        (
            "has(self.static) != has(self.replicas)",
            "replicas is for pools that make their hosts (nspawn, simulated) and must be set for them; \
             a static pool lists its hosts",
        ),
        (
            "has(self.static) == has(oldSelf.static) && has(self.nspawn) == has(oldSelf.nspawn) && \
             has(self.simulated) == has(oldSelf.simulated)",
            "a pool cannot change from static, nspawn or simulated to another of them: make a new pool",
        ),
    ])
))]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "HostPool",
    namespaced,
    status = "HostPoolStatus",
    derive = "PartialEq",
    doc = "Says where hosts come from: a fixed list, local nspawn machines, or simulated ones.",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    label("clusterctl.cluster.x-k8s.io/move-hierarchy", ""),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Hosts", type_ = "integer", json_path = ".status.replicas", description = "Hosts"),
    printcolumn(
        name = "Available",
        type_ = "integer",
        json_path = ".status.availableReplicas",
        description = "Hosts that can be claimed"
    ),
    printcolumn(
        name = "Claimed",
        type_ = "integer",
        json_path = ".status.claimedReplicas",
        description = "Hosts that machines have"
    ),
    printcolumn(
        name = "Quarantined",
        type_ = "integer",
        json_path = ".status.quarantinedReplicas",
        description = "Hosts a person must look at"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct HostPoolSpec {
    /// How many hosts a pool that makes its own should have.
    #[schemars(range(min = 0, max = 10000))]
    pub replicas: Option<i32>,

    /// Labels and annotations of the hosts.
    pub metadata: Option<TemplateMetadata>,

    /// Failure domains to spread the hosts over, in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        inner(length(min = 1, max = 256)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub failure_domains: Vec<String>,

    /// The hosts are these.
    #[serde(rename = "static")]
    pub static_: Option<StaticHosts>,

    /// The hosts are systemd-nspawn machines on the machine Capstan runs on.
    pub nspawn: Option<NspawnHosts>,

    /// The hosts are simulated inside Capstan.
    pub simulated: Option<SimulatedHost>,
}

/// A fixed list of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StaticHosts {
    /// The hosts.
    #[schemars(
        length(min = 1, max = 1000),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub hosts: Vec<StaticHost>,
}

/// One host of a fixed list.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticHost {
    /// Name of the Host to make.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// How to reach it.
    pub ssh: SshAccess,

    /// Failure domain of the host. When unset, the pool assigns its own failure domains in turn.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
}

/// Machines made with systemd-nspawn on the machine Capstan runs on.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NspawnHosts {
    /// Folder with the root file system that each machine gets a copy of.
    #[schemars(length(min = 1, max = 4096), regex(pattern = "^/"))]
    pub root_filesystem: String,

    /// Network bridge the machines are attached to.
    #[schemars(length(min = 1, max = 15))]
    pub bridge: String,

    /// Secret with the SSH key pair that is let in, and that Capstan uses to get in: the keys `ssh-privatekey` and
    /// `ssh-publickey`.
    pub credentials_ref: SecretReference,
}

/// What is known of the pool.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct HostPoolStatus {
    /// What was observed, one entry for each type of condition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// Selector of the pool's hosts as text, for the scale subresource.
    #[schemars(length(min = 1, max = 4096))]
    pub selector: Option<String>,

    /// How many hosts there are.
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,

    /// How many of them can be claimed.
    #[schemars(range(min = 0))]
    pub available_replicas: Option<i32>,

    /// How many of them machines have.
    #[schemars(range(min = 0))]
    pub claimed_replicas: Option<i32>,

    /// How many of them a person must look at.
    #[schemars(range(min = 0))]
    pub quarantined_replicas: Option<i32>,
}
