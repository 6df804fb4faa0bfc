//! What a plan is made from.

use capstan_api::bootstrap::CapstanConfigSpec;
use capstan_plan::{Artifact, Content, Digest, SecretText, Source};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::Role;

/// Where the cluster's API server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Inputs<'_> {
    /// The port that an API server listens on: that of the endpoint, unless the cluster says another.
    pub(crate) fn listen_port(&self) -> u16 {
        self.network.api_server_port.unwrap_or(self.endpoint.port)
    }
}

impl Endpoint {
    /// Its address.
    pub fn url(&self) -> String {
        match self.host.contains(':') {
            true => format!("https://[{}]:{}", self.host, self.port),
            false => format!("https://{}:{}", self.host, self.port),
        }
    }
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPair {
    /// The certificate, or the public key where there is no certificate.
    pub certificate: Content,
    /// The private key.
    pub key: Content,
}

/// What the servers of a cluster sign with: made before the first of them starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    /// Signs API servers and their clients.
    pub ca: KeyPair,
    /// Signs the members of etcd and their clients.
    pub etcd: KeyPair,
    /// Signs the clients of extension API servers.
    pub proxy: KeyPair,
    /// Signs the tokens of service accounts.
    pub service_accounts: KeyPair,
}

/// What stands in Secrets that files refer to, by name and key.
pub type SecretFiles = BTreeMap<(String, String), Content>;

/// Addresses inside the cluster, as its Cluster says them. What is empty is left to the distribution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Addresses of pods.
    pub pods: Vec<String>,
    /// Addresses of services.
    pub services: Vec<String>,
    /// Domain of services.
    pub domain: Option<String>,
    /// Port that API servers listen on, where something else stands between them and the endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server_port: Option<u16>,
}

/// The software of a version: known by its digest, wherever it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Software {
    /// Digest of what is fetched.
    pub sha256: Digest,
    /// Number of bytes.
    pub size: u64,
    /// Where it can be had, best first.
    pub sources: Vec<Source>,
}

/// A snapshot of the cluster's data that is taken before the machine starts another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The revision of the plan it is for: each takes its own.
    pub revision: u64,
    /// How many are kept.
    pub retention: u32,
    /// Whether nobody knows if the server is up: an earlier plan was let through and did not come to its end. Then it is
    /// asked for a snapshot only if it is.
    pub may_be_down: bool,
}

/// What a machine is asked to do once more, to put right what has gone wrong on it. Each field is a token: the machine
/// acts once for each one. A token must stay in the inputs until another one takes its place, because a plan without it is
/// another plan, and k3s is started again for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heal<'a> {
    /// k3s is started again, once for each token, such as the time of the request.
    pub restart: Option<&'a str>,
    /// Every file, program and unit of the plan is put right if it has drifted, and k3s is started again, once for each
    /// token.
    pub reapply: Option<&'a str>,
    /// The boot ID that the machine must leave: it is rebooted while it has this one. What is not a boot ID of Linux,
    /// hexadecimal digits and dashes, is ignored.
    pub reboot: Option<&'a str>,
}

impl<'a> Heal<'a> {
    /// The boot ID to leave, if it is one.
    pub(crate) fn boot_id(&self) -> Option<&'a str> {
        let is_plain = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f' | b'-');
        self.reboot.filter(|id| (1..=64).contains(&id.len()) && id.bytes().all(is_plain))
    }
}

/// Everything a plan is made from.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// What the machine is in its cluster.
    pub role: Role,
    /// Whether the cluster has other servers that this machine could join. It decides what [`Role::Init`] is configured
    /// to do when it starts without the data of etcd: join them, or begin the cluster.
    pub others_serve: bool,
    /// Kubernetes version, with its leading `v`.
    pub version: &'a str,
    /// Name of its Node.
    pub node_name: &'a str,
    /// Identity that its Node carries.
    pub provider_id: &'a str,
    /// Where the cluster's API server is reached.
    pub endpoint: &'a Endpoint,
    /// Addresses inside the cluster. Decided when it begins.
    pub network: &'a Network,
    /// The token with which the machine joins. That of servers gives access to the keys of all CAs: workers have one of
    /// their own, unless the cluster began before they had.
    pub token: &'a SecretText,
    /// On servers: the token that they accept from workers. None if that is the token of servers.
    pub agent_token: Option<&'a SecretText>,
    /// The certificate of the cluster's CA, which a machine that joins must be shown. No input: it never changes.
    pub ca: Option<&'a Content>,
    /// What servers sign with; workers never see it.
    pub certificates: Option<&'a Certificates>,
    /// Labels its Node registers with. Kept up by core afterwards.
    pub labels: &'a BTreeMap<String, String>,
    /// Taints its Node registers with, as `key=value:Effect`. Kept up by core afterwards.
    pub taints: &'a [String],
    /// What the user says.
    pub config: &'a CapstanConfigSpec,
    /// What the user's files refer to.
    pub secrets: &'a SecretFiles,
    /// Every machine that was set up before this time is started again.
    pub restart_after: Option<&'a str>,
    /// What the machine is asked to do once more.
    pub heal: Heal<'a>,
    /// What is installed. Where it comes from is no input.
    pub software: &'a Software,
    /// Images for machines that cannot fetch them. No input.
    pub images: Option<&'a Software>,
    /// The software that the machine may still be running. No input: it only must not be lost too early.
    pub former: Option<&'a Artifact>,
    /// What is saved before another version starts. No input.
    pub snapshot: Option<Snapshot>,
}
