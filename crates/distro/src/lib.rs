//! What differs between distributions of Kubernetes: which files, steps and probes make a machine part of a
//! cluster, and what a change costs.
//!
//! Data in, data out. Nothing in here does I/O, reads a clock or knows of API servers; revisions, signatures and
//! the question of when a machine may have its plan are the planner's.
//!
//! The plan of a machine is a function of its [`Inputs`]. What has to happen again is decided by comparing inputs,
//! never rendered bytes: see [`Fingerprint`].

pub mod cost;
mod error;
mod fingerprint;
mod inputs;
mod k3s;
mod user;

use capstan_api::bootstrap::{CapstanConfigSpec, Distro};
use capstan_plan::{Action, Artifact, Digest, MachinePlan, Probe, SecretText, Step};
use std::collections::BTreeMap;

pub use capstan_planner::Version;
pub use capstan_planner::plans::RESTART_GATE;
pub use capstan_planner::{Fingerprint, Role};
pub use cost::{Change, Cost, Subject, changes, classify};
pub use error::InputError;
pub use inputs::{Certificates, Endpoint, Heal, Inputs, KeyPair, Network, SecretFiles, Snapshot, Software};

/// Grows when plans are rendered differently. It is written beside a plan for people to read; it is no input, so
/// no machine gets a new plan because of it.
pub const RENDERER: u32 = 4;

/// Names of a distribution's software in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftwareNames {
    /// The program.
    pub program: &'static str,
    /// Images for machines that cannot fetch them; a catalog need not have any.
    pub images: &'static str,
}

/// What to look for in the catalog.
pub const fn software_names(distro: Distro) -> Option<SoftwareNames> {
    match distro {
        Distro::K3s => Some(SoftwareNames { program: k3s::PROGRAM, images: k3s::IMAGES }),
        Distro::Rke2 | Distro::Kubeadm => None,
    }
}

/// The programs that a plan puts on its machine: of the version that it starts, and of the one that may still run.
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

/// What a machine should do, without whose plan it is and which revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// What to watch once it is done.
    pub probes: Vec<Probe>,
    /// What must never be repeated by the machine.
    pub redact: Vec<SecretText>,
    /// What it was made from.
    pub fingerprint: Fingerprint,
}

/// Renders the plan of a machine.
///
/// # Errors
/// If the user asks for something that cannot be; the error names the field.
pub fn render(inputs: &Inputs<'_>) -> Result<Rendered, InputError> {
    match inputs.config.distro {
        Distro::K3s => k3s::render(inputs),
        Distro::Rke2 | Distro::Kubeadm => Err(InputError::new(
            "spec.distro",
            "only k3s can be set up so far: set it to k3s, or use the bootstrap provider of that distribution",
        )),
    }
}

/// Refuses a setup that no machine could have, before any machine is told of it.
///
/// # Errors
/// If the user asks for something that cannot be. What stands in Secrets is not looked at.
pub fn check(config: &CapstanConfigSpec, role: Role) -> Result<(), InputError> {
    let sources = config.files.iter().filter_map(|file| file.content_from.as_ref());
    let secrets =
        sources.map(|source| ((source.secret.name.clone(), source.secret.key.clone()), "".into())).collect();
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
        config,
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
