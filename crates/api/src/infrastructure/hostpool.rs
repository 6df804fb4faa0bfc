//! HostPool: a source of Hosts.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{SecretReference, SimulatedHost, SshAccess};
use crate::conditions::Condition;
use crate::meta::TemplateMetadata;
use crate::schema::{DNS_SUBDOMAIN, cel};

/// The source of the Hosts of the pool, and their common metadata. Exactly one of `static`, `nspawn` and `simulated` is
/// set, and it cannot be changed to another one.
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
    /// Number of Hosts that the pool creates. Required for `nspawn` and `simulated`; not allowed for `static`.
    #[schemars(range(min = 0, max = 10000))]
    pub replicas: Option<i32>,

    /// Labels and annotations of the Hosts.
    pub metadata: Option<TemplateMetadata>,

    /// Failure domains that the pool assigns to its Hosts in turn. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        inner(length(min = 1, max = 256)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub failure_domains: Vec<String>,

    /// A fixed list of existing hosts.
    #[serde(rename = "static")]
    pub static_: Option<StaticHosts>,

    /// The pool creates systemd-nspawn machines on the machine that Capstan runs on.
    pub nspawn: Option<NspawnHosts>,

    /// The pool creates hosts that Capstan simulates.
    pub simulated: Option<SimulatedHost>,
}

/// A fixed list of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StaticHosts {
    /// The hosts, at most 1000.
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
    /// Name of the Host object.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// SSH access to the host.
    pub ssh: SshAccess,

    /// Failure domain of the host. Default: the pool assigns one of `spec.failureDomains` in turn.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
}

/// Hosts that are systemd-nspawn machines on the machine that Capstan runs on.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NspawnHosts {
    /// Absolute path of a directory with the root file system. Each machine gets a copy of it.
    #[schemars(length(min = 1, max = 4096), regex(pattern = "^/"))]
    pub root_filesystem: String,

    /// Name of the network bridge that the machines are attached to.
    #[schemars(length(min = 1, max = 15))]
    pub bridge: String,

    /// Secret in the same namespace with the SSH key pair, in the keys `ssh-privatekey` and `ssh-publickey`. Capstan
    /// installs the public key on the machines and logs in with the private key.
    pub credentials_ref: SecretReference,
}

/// Observed state of the pool. Set by Capstan.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct HostPoolStatus {
    /// Conditions of the object, one entry for each type. Set by the controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// Label selector of the pool's Hosts in string form, for the scale subresource.
    #[schemars(length(min = 1, max = 4096))]
    pub selector: Option<String>,

    /// Number of Hosts.
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,

    /// Number of Hosts that can be claimed.
    #[schemars(range(min = 0))]
    pub available_replicas: Option<i32>,

    /// Number of Hosts that are claimed.
    #[schemars(range(min = 0))]
    pub claimed_replicas: Option<i32>,

    /// Number of Hosts that are quarantined. A person must clean them.
    #[schemars(range(min = 0))]
    pub quarantined_replicas: Option<i32>,
}
