//! Host: one existing machine, how Capstan connects to it, and the HostMachine that claims it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::bootstrap::HostConfig;
use crate::conditions::Condition;
use crate::core::MachineAddress;
use crate::schema::{DNS_SUBDOMAIN, LABEL_VALUE, MAINTENANCE_WINDOW, cel};

/// How Capstan connects to the host, its failure domain, and the HostMachine that claims it.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([
        (
            "[has(self.ssh), has(self.simulated), has(self.registration)].exists_one(x, x)",
            "set exactly one of ssh, simulated and registration: a host is reached in one way",
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
    /// SSH access to the host. Set exactly one of `ssh`, `simulated` and `registration`.
    pub ssh: Option<SshAccess>,

    /// Makes the host a simulated one inside Capstan, without a real machine. Set exactly one of `ssh`, `simulated` and
    /// `registration`.
    pub simulated: Option<SimulatedHost>,

    /// The machine dials out to Capstan. Set exactly one of `ssh`, `simulated` and `registration`. `capstan host approve`
    /// sets it.
    pub registration: Option<RegistrationAccess>,

    /// Failure domain of the host, such as a rack, a room or a site. Default: none.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,

    /// If true, Capstan does not claim the host. An existing claim is not affected. Default: false.
    pub unschedulable: Option<bool>,

    /// The claim: which HostMachine uses this host. Set by Capstan with optimistic locking. Capstan removes it after
    /// the host was reset.
    pub claim: Option<HostClaim>,

    /// Why the host is not claimed. Set by Capstan when a reset leaves something on the host, or when you run
    /// `capstan host abandon`. Remove it after you have cleaned the host.
    pub quarantine: Option<HostQuarantine>,

    /// Configuration of the machine on this host. It takes precedence over the configuration of the machine and over
    /// `spec.hostConfig` of its CapstanConfig.
    pub config: Option<HostConfig>,

    /// Maintenance windows of the host: Capstan drains the machine on it and restarts Kubernetes on it for a change only while one
    /// of them is open, and one of `spec.rollout.windows` of the control plane, too. They are written as those. Default: none of its
    /// own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 16),
        inner(length(min = 15, max = 128), regex(pattern = MAINTENANCE_WINDOW)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub windows: Vec<String>,
}

/// SSH access to a host.
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
    /// Host name or IP address of the SSH server.
    #[schemars(length(min = 1, max = 253))]
    pub address: String,

    /// Port of the SSH server. Default: 22.
    #[serde(default = "ssh_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,

    /// User for the SSH login. The key `username` of the Secret takes precedence. Default: `root`.
    #[serde(default = "ssh_user")]
    #[schemars(length(min = 1, max = 64))]
    pub user: String,

    /// If true, and the user is not root, Capstan runs commands with `sudo`. If `sudo` asks for a password, the Secret
    /// must have it in the key `sudo-password`. Default: false.
    pub sudo: Option<bool>,

    /// Secret in the same namespace with the credentials: either the key `ssh-privatekey`, with `passphrase` if the
    /// private key is encrypted, or the key `password`. The optional key `username` takes precedence over `user`.
    pub credentials_ref: SecretReference,

    /// Accepted host keys, in OpenSSH format: `ssh-ed25519 AAAA…`. Capstan does not connect to a host that presents
    /// another key. Required unless `trustOnFirstUse` is true; Capstan then writes the first key here.
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

    /// If true, and `hostKeys` is empty, Capstan pins the first key that the host presents. An attacker who intercepts
    /// that first connection is trusted permanently, so prefer `hostKeys`. Default: false.
    pub trust_on_first_use: Option<bool>,
}

const fn ssh_port() -> i32 {
    22
}

fn ssh_user() -> String {
    "root".to_owned()
}

/// Reference to a Secret in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
}

/// A machine that dials out, and its pinned identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationAccess {
    /// Name of the HostRegistration in the same namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Public key of the machine, as in the HostRegistration: SubjectPublicKeyInfo of a P-256 key, in base64. Capstan does
    /// not use a HostRegistration with another key.
    #[schemars(length(min = 1, max = 256))]
    pub public_key: String,
}

/// Settings of a host that Capstan simulates.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedHost {
    /// Duration of a boot, in milliseconds. Default: 100.
    #[schemars(range(min = 0, max = 3600000))]
    pub boot_milliseconds: Option<i32>,

    /// Duration of each step of a plan, in milliseconds. Default: 5.
    #[schemars(range(min = 0, max = 3600000))]
    pub step_milliseconds: Option<i32>,
}

/// The claim of a host: which HostMachine uses it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostClaim {
    /// `spec.claimID` of the HostMachine. It identifies the claim; the names are only for display.
    #[schemars(length(min = 1, max = 64))]
    pub id: String,

    /// Name of the HostMachine.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub machine_name: String,

    /// Name of the Cluster of the HostMachine.
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL_VALUE))]
    pub cluster_name: String,

    /// Time at which the host was claimed.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub since: Option<Time>,
}

/// Why a host is quarantined.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostQuarantine {
    /// Machine-readable reason in CamelCase.
    #[schemars(length(min = 1, max = 1024), regex(pattern = crate::schema::REASON))]
    pub reason: String,

    /// Human-readable explanation, such as what is left on the host.
    #[schemars(length(min = 1, max = 32768))]
    pub message: Option<String>,

    /// Time at which the quarantine began.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub since: Option<Time>,
}

/// Observed state of the host. Set by Capstan.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct HostStatus {
    /// Conditions of the object, one entry for each type. Set by the controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// Summary of the state, for display: `Available`, `Claimed`, `Releasing` (being reset), `Quarantined`,
    /// `Unreachable`, `Unusable` (see the condition Usable) or `Unschedulable`. Programs should read spec and
    /// conditions instead.
    pub state: Option<HostState>,

    /// Properties of the machine and its operating system, as last read from the host.
    pub facts: Option<HostFacts>,

    /// Addresses of the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<MachineAddress>,
}

/// Summary of the state of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HostState {
    /// The host can be claimed.
    Available,
    /// A HostMachine has claimed the host.
    Claimed,
    /// The HostMachine is being deleted; the host is reset before it can be claimed again.
    Releasing,
    /// `spec.quarantine` is set, for example because a reset left something on the host. A person must clean it.
    Quarantined,
    /// Capstan cannot connect to the host.
    Unreachable,
    /// Capstan can connect to the host, but a machine would not work on it. The condition Usable says why.
    Unusable,
    /// `spec.unschedulable` is true.
    Unschedulable,
}

/// Properties of a machine and its operating system.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct HostFacts {
    /// Host name that the operating system reports.
    #[schemars(length(max = 253))]
    pub hostname: Option<String>,

    /// Machine ID of the operating system (`/etc/machine-id`).
    #[serde(rename = "machineID")]
    #[schemars(length(max = 64))]
    pub machine_id: Option<String>,

    /// Boot ID of the kernel. It changes with every boot.
    #[serde(rename = "bootID")]
    #[schemars(length(max = 64))]
    pub boot_id: Option<String>,

    /// Name and version of the operating system.
    #[schemars(length(max = 256))]
    pub os_image: Option<String>,

    /// Kernel version.
    #[schemars(length(max = 256))]
    pub kernel_version: Option<String>,

    /// Processor architecture, such as `amd64`.
    #[schemars(length(max = 32))]
    pub architecture: Option<String>,

    /// Number of CPUs.
    #[schemars(range(min = 0))]
    pub cpus: Option<i32>,

    /// Size of the memory, in bytes.
    #[schemars(range(min = 0))]
    pub memory_bytes: Option<i64>,
}
