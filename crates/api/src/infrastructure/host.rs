//! Host: one machine that exists, how to reach it, and who has it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::conditions::Condition;
use crate::core::MachineAddress;
use crate::schema::{DNS_SUBDOMAIN, LABEL_VALUE, cel};

/// How to reach the host, its failure domain, and which machine has claimed it.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([
        (
            "has(self.ssh) != has(self.simulated)",
            "set exactly one of ssh and simulated: a host is reached in one way",
        ),
        (
            "!has(oldSelf.claim) || !has(self.claim) || self.claim.id == oldSelf.claim.id",
            "claim cannot pass from one machine to another: it must be released first",
        ),
    ])
))]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "Host",
    namespaced,
    status = "HostStatus",
    derive = "PartialEq",
    doc = "A machine that exists: bare metal, a virtual machine that Capstan did not create, an edge box.",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    label("clusterctl.cluster.x-k8s.io/move-hierarchy", ""),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state", description = "State"),
    printcolumn(
        name = "Address",
        type_ = "string",
        json_path = ".spec.ssh.address",
        description = "Address the host is reached at"
    ),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.claim.clusterName",
        description = "Cluster of the machine that has claimed it"
    ),
    printcolumn(
        name = "Machine",
        type_ = "string",
        json_path = ".spec.claim.machineName",
        description = "Machine that has claimed it"
    ),
    printcolumn(
        name = "Failure domain",
        type_ = "string",
        json_path = ".spec.failureDomain",
        priority = 10,
        description = "Failure domain of the host"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".spec.quarantine.reason",
        description = "Why it is quarantined"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct HostSpec {
    /// Reach the host over SSH.
    pub ssh: Option<SshAccess>,

    /// The host is simulated inside Capstan: there is no machine to reach.
    pub simulated: Option<SimulatedHost>,

    /// Failure domain of the host, such as a rack, a room or a site.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,

    /// While true the host is not claimed. A claim it already has is left alone.
    pub unschedulable: Option<bool>,

    /// The machine that has this host. Written by Capstan, by compare and swap; cleared when the host has been
    /// given back clean.
    pub claim: Option<HostClaim>,

    /// Why the host must not be used. Written by Capstan when a host did not come back clean; remove it once
    /// you have put the host right.
    pub quarantine: Option<HostQuarantine>,
}

/// How to reach a host over SSH.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([(
        "has(self.hostKeys) || (has(self.trustOnFirstUse) && self.trustOnFirstUse)",
        "hostKeys must name at least one key of the host (see ssh-keyscan), or set trustOnFirstUse to pin the first one seen",
    )])
))]
pub struct SshAccess {
    /// Host name or address.
    #[schemars(length(min = 1, max = 253))]
    pub address: String,

    /// Port of the SSH server.
    #[serde(default = "ssh_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,

    /// User to log in as.
    #[serde(default = "ssh_user")]
    #[schemars(length(min = 1, max = 64))]
    pub user: String,

    /// Whether commands need `sudo` to become root. If it asks for a password, the Secret must have the key
    /// `sudo-password`.
    pub sudo: Option<bool>,

    /// Secret in the same namespace with the key `ssh-privatekey`, and `passphrase` if it has one; or with the
    /// key `password`. A key `username` counts more than `user`.
    pub credentials_ref: SecretReference,

    /// Keys the host may show, as OpenSSH writes them: `ssh-ed25519 AAAA…`. A host that shows another one is
    /// not talked to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 16),
        inner(
            length(min = 1, max = 4096),
            regex(pattern = r"^(ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/=]+( .*)?$")
        ),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub host_keys: Vec<String>,

    /// Pin the first key that the host presents. An attacker who intercepts that first connection is trusted
    /// permanently, so prefer `hostKeys`.
    pub trust_on_first_use: Option<bool>,
}

const fn ssh_port() -> i32 {
    22
}

fn ssh_user() -> String {
    "root".to_owned()
}

/// Names a Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
}

/// A host that is simulated inside Capstan.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedHost {
    /// How long the host takes to boot.
    #[schemars(range(min = 0, max = 3600000))]
    pub boot_milliseconds: Option<i32>,

    /// How long each step of a plan takes.
    #[schemars(range(min = 0, max = 3600000))]
    pub step_milliseconds: Option<i32>,
}

/// Who has a host.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostClaim {
    /// The `claimID` of the HostMachine: what counts. The names beside it are for people.
    #[schemars(length(min = 1, max = 64))]
    pub id: String,

    /// Name of the HostMachine.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub machine_name: String,

    /// Name of its Cluster.
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_VALUE))]
    pub cluster_name: String,

    /// When the host was claimed.
    pub since: Option<Time>,
}

/// Why a host must not be used.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostQuarantine {
    /// Why, as one CamelCase word.
    #[schemars(length(min = 1, max = 1024), regex(pattern = crate::schema::REASON))]
    pub reason: String,

    /// Why, for people: what was left on the host.
    #[schemars(length(min = 1, max = 32768))]
    pub message: Option<String>,

    /// Since when.
    pub since: Option<Time>,
}

/// What is known of the host.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct HostStatus {
    /// What was observed, one entry for each type of condition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// Where the host is in its life, in one word, for people. Programs read spec and conditions.
    pub state: Option<HostState>,

    /// What the host says of itself.
    pub facts: Option<HostFacts>,

    /// Addresses of the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<MachineAddress>,
}

/// Where a host is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HostState {
    /// It can be claimed.
    Available,
    /// A machine has it.
    Claimed,
    /// It is being cleaned before it is given back.
    Releasing,
    /// It did not come back clean, or something else is wrong with it; a person must look.
    Quarantined,
    /// It does not answer.
    Unreachable,
    /// It answers, but a machine would not work on it: the condition Usable says why.
    Unusable,
    /// It is not to be claimed, because its spec says so.
    Unschedulable,
}

/// What a host says of itself.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct HostFacts {
    /// Name the host has given itself.
    #[schemars(length(max = 253))]
    pub hostname: Option<String>,

    /// Machine ID of the operating system.
    #[serde(rename = "machineID")]
    #[schemars(length(max = 64))]
    pub machine_id: Option<String>,

    /// Changes with every boot.
    #[serde(rename = "bootID")]
    #[schemars(length(max = 64))]
    pub boot_id: Option<String>,

    /// Name of the operating system and its version.
    #[schemars(length(max = 256))]
    pub os_image: Option<String>,

    /// Version of the kernel.
    #[schemars(length(max = 256))]
    pub kernel_version: Option<String>,

    /// Processor architecture, such as `amd64`.
    #[schemars(length(max = 32))]
    pub architecture: Option<String>,

    /// Number of processors.
    #[schemars(range(min = 0))]
    pub cpus: Option<i32>,

    /// Size of the memory.
    #[schemars(range(min = 0))]
    pub memory_bytes: Option<i64>,
}
