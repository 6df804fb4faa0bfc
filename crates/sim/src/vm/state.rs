//! The state of a virtual machine. Plain data.

use capstan_api::infrastructure::SimulatedHost;
use capstan_plan::MachinePath;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::files::Files;

/// How long a host takes to boot when nothing is said about it.
const BOOT_MILLISECONDS: u64 = 100;
/// How long a step takes when nothing is said about it.
const STEP_MILLISECONDS: u64 = 5;

/// The persistent state of a machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Machine ID; set when the machine is created.
    pub machine_id: String,
    /// Boot ID; changes with every boot.
    pub boot_id: String,
    /// Simulated delays.
    pub latency: Latency,
    /// The file system.
    pub files: Files,
    /// systemd services by name, with suffix.
    pub units: BTreeMap<String, Unit>,
    /// The cluster membership in the k3s data folder, whether k3s runs or not.
    #[serde(default)]
    pub data: Option<Membership>,
    /// The life of the machine under its claim; none while it is not claimed.
    pub life: Option<Life>,
    /// Result of the last reset.
    pub last_reset: Option<LastReset>,
}

/// Simulated delays of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// Duration of a boot.
    pub boot_milliseconds: u64,
    /// Duration of each change.
    pub step_milliseconds: u64,
}

impl From<&SimulatedHost> for Latency {
    fn from(host: &SimulatedHost) -> Self {
        let or =
            |value: Option<i32>, default| value.and_then(|value| value.try_into().ok()).unwrap_or(default);
        Self {
            boot_milliseconds: or(host.boot_milliseconds, BOOT_MILLISECONDS),
            step_milliseconds: or(host.step_milliseconds, STEP_MILLISECONDS),
        }
    }
}

/// Role of k3s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum K3sRole {
    /// A control plane machine.
    Server,
    /// A worker.
    Agent,
}

impl K3sRole {
    /// Name of the systemd unit.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Server => "k3s.service",
            Self::Agent => "k3s-agent.service",
        }
    }

    /// The k3s subcommand.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Agent => "agent",
        }
    }

    /// The k3s role that a unit of this name runs; none for other units.
    pub fn of_unit(name: &str) -> Option<Self> {
        [Self::Server, Self::Agent].into_iter().find(|kind| kind.unit() == name)
    }
}

/// A systemd service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Unit {
    /// Whether it starts at boot.
    pub enabled: bool,
    /// Whether it is active.
    pub active: bool,
    /// How often it was started. Distinguishes one run from the next.
    pub runs: u64,
    /// The cluster membership while it is active, if it is k3s.
    pub running: Option<Membership>,
}

/// The cluster that a running k3s is a member of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Membership {
    /// Port of the cluster's API server. It identifies the cluster in the simulation.
    pub port: u16,
    /// Name of the Node.
    pub node: String,
    /// Role: server or agent.
    pub kind: K3sRole,
}

/// The life of a machine under one claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Life {
    /// The claim ID.
    pub claim_id: String,
    /// Number of completed steps of the bootstrap data.
    pub steps_done: usize,
    /// Result of the bootstrap data, once it has ended.
    pub ended: Option<Ended>,
    /// Whether the agent was started.
    pub enrolled: bool,
    /// Whether a reset is running.
    pub resetting: bool,
    /// Paths that the bootstrap data created, the outermost first.
    pub paths: Vec<String>,
}

impl Life {
    /// A life that has just begun.
    pub fn new(claim_id: &str) -> Self {
        Self {
            claim_id: claim_id.to_owned(),
            steps_done: 0,
            ended: None,
            enrolled: false,
            resetting: false,
            paths: Vec::new(),
        }
    }
}

/// Result of the bootstrap data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ended {
    /// All steps succeeded.
    Done,
    /// A step failed.
    Failed {
        /// Description of the failed step.
        step: String,
        /// Exit code, if the step was a command.
        exit_code: Option<i32>,
        /// Last lines of its output.
        last_lines: Vec<String>,
    },
}

/// Result of a reset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastReset {
    /// The claim ID of the life that the reset ended.
    pub claim_id: String,
    /// What the reset left behind; empty if the machine is clean.
    pub left: Vec<String>,
}

impl State {
    /// The state of a new machine.
    pub fn new(name: &str) -> Self {
        Self {
            machine_id: random_id(),
            boot_id: random_id(),
            latency: Latency::from(&SimulatedHost::default()),
            files: Files::image(name),
            units: BTreeMap::new(),
            data: None,
            life: None,
            last_reset: None,
        }
    }

    /// The state of the same machine after its operating system is installed again.
    pub fn wiped(&self, name: &str) -> Self {
        Self { machine_id: self.machine_id.clone(), latency: self.latency, ..Self::new(name) }
    }

    /// The cluster membership of the k3s that runs on the machine.
    pub fn membership(&self) -> Option<&Membership> {
        self.units.values().find_map(|unit| unit.running.as_ref())
    }

    /// The version of k3s that a unit would start. The error text is what systemd or k3s would print.
    ///
    /// # Errors
    /// If there is no such unit, or the program that it starts is missing.
    pub fn version(&self, kind: K3sRole) -> Result<String, String> {
        let unit = kind.unit();
        let missing = || format!("Unit {unit} not found.");
        let file = self.files.read(&format!("/etc/systemd/system/{unit}")).ok_or_else(missing)?;
        let file = String::from_utf8_lossy(file);
        let command = file.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap_or_default();
        let mut words = command.split(' ');
        let program = words.next().and_then(|program| MachinePath::new(program).ok());
        let program = program.ok_or_else(|| format!("{unit} has no ExecStart= with an absolute path"))?;
        if words.next() != Some(kind.word()) {
            return Err(format!("{unit} does not start `k3s {}`", kind.word()));
        }
        if !self.files.has_program(&program) {
            return Err(format!("{unit}: Failed to locate executable {program}: No such file or directory"));
        }
        let is_version = |part: &&str| {
            part.strip_prefix('v').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        };
        let version = program.parts().find(is_version).map(str::to_owned);
        version.ok_or_else(|| format!("{program}: a simulated machine reads the version from the path"))
    }

    /// What distinguishes the machine from a new one: files, units and k3s data that an unclaimed machine must not
    /// have.
    pub fn leftovers(&self, name: &str) -> Vec<String> {
        let mut left = self.files.differences(&Files::image(name));
        left.extend(self.units.keys().map(|unit| format!("unit {unit}")));
        left.extend(self.data.iter().map(|_| "the data of k3s".to_owned()));
        left
    }
}

/// As random as a UUID.
pub(crate) fn random_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}
