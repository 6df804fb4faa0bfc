//! The differences between Kubernetes distributions: the files, steps and probes that make a machine join a cluster,
//! and the cost of each change.
//!
//! Data in, data out. This crate does no I/O, reads no clock and knows nothing about API servers. Revisions, signatures
//! and the decision when a machine gets its plan belong to the planner.
//!
//! The plan of a machine is a function of its [`Inputs`]. Steps run again because inputs have changed, never because
//! rendered bytes have: see [`Fingerprint`].

pub mod cost;
mod error;
mod fingerprint;
mod host;
mod inputs;
mod k3s;
mod proxy;
mod user;
mod user_probes;

use capstan_api::bootstrap::{CapstanConfigSpec, Distro};
use capstan_api::infrastructure::SecretReference;
use capstan_plan::{
    Action, AgentProgram, Artifact, Capabilities, Digest, MachinePlan, Periodic, Probe, SecretText, Step,
};
use std::collections::BTreeMap;

pub use capstan_planner::Version;
pub use capstan_planner::plans::RESTART_GATE;
pub use capstan_planner::windows::Maintenance;
pub use capstan_planner::{Fingerprint, Role};
pub use cost::{Change, Cost, Subject, changes, classify, classify_on};
pub use error::InputError;
pub use host::{HostFacts, MergedConfig, Origin, merge};
pub use inputs::{Certificates, Endpoint, Heal, Inputs, KeyPair, Network, SecretFiles, Snapshot, Software};

/// Version of the renderer; it increases when plans are rendered differently. It is stored beside a plan for people to
/// read. It is not part of the fingerprint, so it gives no machine a new plan.
pub const RENDERER: u32 = 5;

/// Names of a distribution's software in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftwareNames {
    /// The Kubernetes program.
    pub program: &'static str,
    /// Container images for machines that cannot pull them; they are optional in a catalog.
    pub images: &'static str,
}

/// The catalog names of a distribution's software; none if the distribution is not supported.
pub const fn software_names(distro: Distro) -> Option<SoftwareNames> {
    match distro {
        Distro::K3s => Some(SoftwareNames { program: k3s::PROGRAM, images: k3s::IMAGES }),
        Distro::Rke2 | Distro::Kubeadm => None,
    }
}

/// The programs that a plan installs: the version that it starts, and the version that may still be running.
pub fn programs(plan: &MachinePlan) -> impl Iterator<Item = &Artifact> {
    let artifacts = plan.steps.iter().filter_map(|step| match &step.action {
        Action::Artifact(artifact) => Some(artifact),
        _ => None,
    });
    artifacts.filter(|artifact| k3s::is_program(artifact))
}

/// Whether a program is of this version.
pub fn is_of_version(program: &Artifact, version: &str) -> bool {
    k3s::is_of_version(program, version)
}

/// The content of a plan, without the machine and the revision that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// Steps, in order.
    pub steps: Vec<Step>,
    /// Probes to run after the last step.
    pub probes: Vec<Probe>,
    /// Commands that run again and again while the plan is applied.
    pub periodic: Vec<Periodic>,
    /// Windows in which drift is repaired, if that is limited to windows.
    pub repair_windows: Vec<String>,
    /// Windows of the Host in which drift is repaired, if both are limited.
    pub host_windows: Vec<String>,
    /// The program of the agent.
    pub agent: Option<AgentProgram>,
    /// Secrets that the agent must remove from all output.
    pub redact: Vec<SecretText>,
    /// Digests of the inputs.
    pub fingerprint: Fingerprint,
    /// Fields of the configuration that are left out, because the agent does not understand them.
    pub left_out: Vec<&'static str>,
}

/// Renders the plan of a machine.
///
/// # Errors
/// If the configuration is invalid; the error names the field.
pub fn render(inputs: &Inputs<'_>) -> Result<Rendered, InputError> {
    match inputs.config.distro {
        Distro::K3s => k3s::render(inputs),
        Distro::Rke2 | Distro::Kubeadm => Err(InputError::new(
            "spec.distro",
            "only k3s can be set up so far: set it to k3s, or use the bootstrap provider of that distribution",
        )),
    }
}

/// Checks a configuration before any machine gets a plan from it.
///
/// # Errors
/// If the configuration is invalid, for every machine or with an entry of `spec.hostConfig`. The content of Secrets is not
/// checked.
pub fn check(config: &CapstanConfigSpec, role: Role) -> Result<(), InputError> {
    check_one(config, role)?;
    for entry in &config.host_config {
        let merged = host::with_entry(config, entry)?;
        check_one(&merged.config, role).map_err(|error| merged.locate(error))?;
    }
    Ok(())
}

/// Names and keys of the Secrets that a configuration refers to.
pub fn secret_keys(config: &CapstanConfigSpec) -> Vec<(String, String)> {
    let files = config.files.iter().filter_map(|file| file.content_from.as_ref());
    let files = files.map(|source| (source.secret.name.clone(), source.secret.key.clone()));
    let proxy = config.proxy.as_ref().and_then(|proxy| proxy.credentials_ref.as_ref());
    let of_proxy = |reference: &SecretReference| {
        [proxy::USERNAME, proxy::PASSWORD].map(|key| (reference.name.clone(), key.to_owned()))
    };
    files.chain(proxy.map(of_proxy).into_iter().flatten()).collect()
}

fn check_one(config: &CapstanConfigSpec, role: Role) -> Result<(), InputError> {
    let secrets = secret_keys(config).into_iter().map(|key| (key, "-".into())).collect();
    render(&Inputs {
        role,
        others_serve: false,
        version: "v0.0.0",
        node_name: "",
        provider_id: "",
        endpoint: &Endpoint { host: String::new(), port: 0 },
        network: &Network::default(),
        token: &SecretText::new(""),
        agent_token: None,
        ca: None,
        certificates: None,
        labels: &BTreeMap::new(),
        taints: &[],
        capabilities: &Capabilities::all(),
        agent: None,
        config,
        maintenance: &Maintenance::ANY_TIME,
        secrets: &secrets,
        restart_after: None,
        heal: Heal::default(),
        software: &Software { sha256: Digest::of(b""), size: 0, sources: Vec::new() },
        images: None,
        former: None,
        snapshot: None,
    })
    .map(|_| ())
}
