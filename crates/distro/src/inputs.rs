//! The inputs of a plan.

use capstan_api::bootstrap::{CapstanConfigSpec, DriftPolicy, MachineProbe};
use capstan_plan::{
    AgentProgram, Artifact, Capabilities, Capability, Content, Digest, OnDrift, SecretText, Source, limits,
};
use capstan_planner::windows::{Maintenance, Schedule};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::Role;

/// Endpoint of the cluster's API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// What the agent does about drift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DriftRepair {
    pub(crate) policy: OnDrift,
    /// The windows in which it repairs, if that is limited to windows: one of these must be open,
    pub(crate) windows: Vec<String>,
    /// and one of these, if there are any.
    pub(crate) host_windows: Vec<String>,
}

impl From<OnDrift> for DriftRepair {
    fn from(policy: OnDrift) -> Self {
        Self { policy, windows: Vec::new(), host_windows: Vec::new() }
    }
}

impl Inputs<'_> {
    /// The port that an API server listens on: that of the endpoint, unless the cluster says another.
    pub(crate) fn listen_port(&self) -> u16 {
        self.network.api_server_port.unwrap_or(self.endpoint.port)
    }

    /// What the agent does about drift. The fingerprint has the same answer: once the agent understands what is asked for, the
    /// machine gets another plan.
    pub(crate) fn on_drift(&self) -> DriftRepair {
        let wanted = self.wanted_on_drift();
        let has = |capability| self.capabilities.has(capability);
        let is_understood = match wanted.policy {
            OnDrift::Repair => true,
            OnDrift::Report => has(Capability::OnDrift),
            OnDrift::RepairInWindow => {
                let knows_hosts = wanted.host_windows.is_empty() || has(Capability::HostWindows);
                has(Capability::RepairWindows) && knows_hosts
            }
        };
        match is_understood {
            true => wanted,
            // Rather no repair than one at any time.
            false if has(Capability::OnDrift) => OnDrift::Report.into(),
            false => OnDrift::Repair.into(),
        }
    }

    /// The same for an agent that understands everything.
    fn wanted_on_drift(&self) -> DriftRepair {
        match self.config.on_drift.unwrap_or_default() {
            DriftPolicy::Repair => return OnDrift::Repair.into(),
            DriftPolicy::Report => return OnDrift::Report.into(),
            DriftPolicy::RepairInWindow if *self.maintenance == Maintenance::ANY_TIME => {
                return OnDrift::Repair.into();
            }
            DriftPolicy::RepairInWindow => {}
        }
        let texts = |schedule: &Schedule| -> Option<Vec<String>> {
            let texts: Vec<String> = schedule.windows()?.texts().map(str::to_owned).collect();
            // An annotation of a Machine may have more than a plan.
            let fits = texts.len() <= limits::WINDOWS
                && texts.iter().all(|window| window.len() <= limits::WINDOW_BYTES);
            fits.then_some(texts)
        };
        let sets: Option<Vec<Vec<String>>> = self.maintenance.schedules().map(texts).collect();
        let Some(mut sets) = sets else { return OnDrift::Report.into() };
        sets.dedup();
        let mut sets = sets.into_iter();
        DriftRepair {
            policy: OnDrift::RepairInWindow,
            windows: sets.next().unwrap_or_default(),
            host_windows: sets.next().unwrap_or_default(),
        }
    }

    /// Fields of the configuration that are left out, because the agent does not understand them.
    pub(crate) fn left_out(&self) -> Vec<&'static str> {
        let drift = (self.wanted_on_drift() != self.on_drift()).then_some("spec.onDrift");
        let periodic = (!self.config.periodic.is_empty() && !self.runs_periodic()).then_some("spec.periodic");
        let proxy = (self.has_proxy_of_downloads() && !self.capabilities.has(Capability::Proxy))
            .then_some("spec.proxy (for downloads)");
        let probes = self.config.probes.iter().any(|probe| !self.runs_probe(probe));
        let probes = probes.then_some("spec.probes (https, tcp, file and unit)");
        drift.into_iter().chain(periodic).chain(probes).chain(proxy).collect()
    }

    /// Whether the agent downloads through a proxy.
    pub(crate) fn proxies_downloads(&self) -> bool {
        self.has_proxy_of_downloads() && self.capabilities.has(Capability::Proxy)
    }

    fn has_proxy_of_downloads(&self) -> bool {
        self.config.proxy.as_ref().is_some_and(|proxy| proxy.https_proxy.is_some())
    }

    /// Whether the agent knows the target of a probe.
    pub(crate) fn runs_probe(&self, probe: &MachineProbe) -> bool {
        let is_of_first_release = probe.exec.is_some() || probe.http.is_some();
        is_of_first_release || self.capabilities.has(Capability::Targets)
    }

    /// Whether the agent runs commands again and again.
    pub(crate) fn runs_periodic(&self) -> bool {
        self.capabilities.has(Capability::Periodic)
    }
}

impl Endpoint {
    /// URL of the endpoint.
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

/// The CAs and signing keys of a cluster's servers. They are created before the first server starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    /// CA of API servers and their clients.
    pub ca: KeyPair,
    /// CA of etcd members and their clients.
    pub etcd: KeyPair,
    /// CA of the clients of extension API servers (front proxy).
    pub proxy: KeyPair,
    /// Key pair that signs service account tokens.
    pub service_accounts: KeyPair,
}

/// Contents of the Secrets that a configuration refers to, by name and key: see [`secret_keys`](crate::secret_keys).
pub type SecretFiles = BTreeMap<(String, String), Content>;

/// Network settings of the cluster, from its Cluster object. The distribution chooses values that are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// CIDR blocks of pods.
    pub pods: Vec<String>,
    /// CIDR blocks of services.
    pub services: Vec<String>,
    /// Domain of services.
    pub domain: Option<String>,
    /// Port that API servers listen on, if a load balancer or proxy is between them and the endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server_port: Option<u16>,
}

/// The software of a version, identified by its digest and not by its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Software {
    /// Digest of the file that machines download.
    pub sha256: Digest,
    /// Size in bytes.
    pub size: u64,
    /// Download sources, the preferred one first.
    pub sources: Vec<Source>,
}

/// A snapshot of etcd that is taken before the machine starts another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Revision of the plan that the snapshot belongs to. Each revision takes its own snapshot.
    pub revision: u64,
    /// Number of snapshots to keep.
    pub retention: u32,
    /// Whether the state of the server is unknown because an earlier plan passed its gate and was not completed. The
    /// snapshot is then taken only if the server is up.
    pub may_be_down: bool,
}

/// Healing steps that a machine must run. Each field is a token: the machine acts once for each token. A token must
/// stay in the inputs until another token replaces it, because a plan without it is a different plan, and would restart
/// k3s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heal<'a> {
    /// Restart k3s, once for each token, such as the time of the request.
    pub restart: Option<&'a str>,
    /// Restore every file, program and unit of the plan that has drifted, and restart k3s, once for each token.
    pub reapply: Option<&'a str>,
    /// Boot ID at which the machine must be rebooted: the machine is rebooted while it has this boot ID. A value that
    /// is not a Linux boot ID (hexadecimal digits and dashes) is ignored.
    pub reboot: Option<&'a str>,
}

impl<'a> Heal<'a> {
    /// The boot ID to leave, if it is one.
    pub(crate) fn boot_id(&self) -> Option<&'a str> {
        let is_plain = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f' | b'-');
        self.reboot.filter(|id| (1..=64).contains(&id.len()) && id.bytes().all(is_plain))
    }
}

/// All inputs of a plan.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// Role of the machine in its cluster.
    pub role: Role,
    /// Whether the cluster has other servers that this machine could join. It decides what [`Role::Init`] is configured
    /// to do when it starts without the data of etcd: join them, or begin the cluster.
    pub others_serve: bool,
    /// Kubernetes version, with its leading `v`.
    pub version: &'a str,
    /// Name of the Node.
    pub node_name: &'a str,
    /// Provider ID of the Node.
    pub provider_id: &'a str,
    /// Endpoint of the cluster's API server.
    pub endpoint: &'a Endpoint,
    /// Network settings of the cluster. They are fixed when the cluster is created.
    pub network: &'a Network,
    /// Token that a machine presents to join the cluster. The token of servers gives access to the keys of all CAs: workers
    /// have one of their own, unless the cluster is older than that.
    pub token: &'a SecretText,
    /// On servers: the token that they accept from workers. `None` if that is the token of servers.
    pub agent_token: Option<&'a SecretText>,
    /// Certificate of the cluster's CA, which a joining machine requires of its server. No input: it never changes.
    pub ca: Option<&'a Content>,
    /// CAs and signing keys of servers; workers never receive them.
    pub certificates: Option<&'a Certificates>,
    /// Labels that the Node registers with. Core maintains them afterwards.
    pub labels: &'a BTreeMap<String, String>,
    /// Taints that the Node registers with, as `key=value:Effect`. Core maintains them afterwards.
    pub taints: &'a [String],
    /// What the agent of the machine understands. Whatever else the configuration asks for is left out if the machine works
    /// without it. Otherwise the steps need capabilities that the agent lacks, and the machine must wait.
    pub capabilities: &'a Capabilities,
    /// The program that the agent should run as. Its sources are not part of the fingerprint.
    pub agent: Option<&'a AgentProgram>,
    /// The user's configuration.
    pub config: &'a CapstanConfigSpec,
    /// The maintenance windows of the machine. An input only if drift is repaired in them.
    pub maintenance: &'a Maintenance,
    /// Contents of the Secrets that the user's configuration refers to.
    pub secrets: &'a SecretFiles,
    /// Every machine that was set up before this time is restarted.
    pub restart_after: Option<&'a str>,
    /// Healing steps that the machine must run.
    pub heal: Heal<'a>,
    /// The software to install. Its sources are not part of the fingerprint.
    pub software: &'a Software,
    /// Container images for machines that cannot pull them. Not part of the fingerprint.
    pub images: Option<&'a Software>,
    /// The software that the machine may still run. Not part of the fingerprint: it is listed so that it is not removed
    /// too early.
    pub former: Option<&'a Artifact>,
    /// Snapshot to take before another version starts. Not part of the fingerprint.
    pub snapshot: Option<Snapshot>,
}
