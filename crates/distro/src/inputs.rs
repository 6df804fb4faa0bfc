//! What a plan is made from.

use capstan_api::bootstrap::CapstanConfigSpec;
use capstan_plan::{Content, SecretText};
use std::collections::BTreeMap;

/// What a machine is in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The server that begins the cluster. There is one in a cluster's life.
    Init,
    /// A server that joins.
    Server,
    /// A worker.
    Worker,
}

impl Role {
    /// Whether it is part of the control plane.
    pub const fn is_server(self) -> bool {
        matches!(self, Self::Init | Self::Server)
    }

    /// Its name in fingerprints. Changing one would restart every machine that has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Server => "server",
            Self::Worker => "worker",
        }
    }
}

/// Where the cluster's API server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
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

/// Everything a plan is made from.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// What the machine is in its cluster.
    pub role: Role,
    /// Kubernetes version, with its leading `v`.
    pub version: &'a str,
    /// Name of its Node.
    pub node_name: &'a str,
    /// Identity that its Node carries.
    pub provider_id: &'a str,
    /// Where the cluster's API server is reached.
    pub endpoint: &'a Endpoint,
    /// What a machine shows to be let in.
    pub token: &'a SecretText,
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
}
