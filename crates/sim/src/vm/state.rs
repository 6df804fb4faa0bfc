//! What a virtual machine is. Pure data.

use capstan_api::infrastructure::SimulatedHost;
use capstan_plan::MachinePath;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::files::Files;

/// How long a host takes to boot when nothing is said about it.
const BOOT_MILLISECONDS: u64 = 100;
/// How long a step takes when nothing is said about it.
const STEP_MILLISECONDS: u64 = 5;

/// Everything about a machine that outlives the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Given when the machine was made.
    pub machine_id: String,
    /// Changes with every boot.
    pub boot_id: String,
    /// How slow it is.
    pub latency: Latency,
    /// Its files.
    pub files: Files,
    /// Services that systemd knows, by name, with its ending.
    pub units: BTreeMap<String, Unit>,
    /// What the data of k3s says it is part of, whether it runs or not.
    #[serde(default)]
    pub data: Option<Membership>,
    /// Its life under a claim: none while nobody has it.
    pub life: Option<Life>,
    /// How the last reset ended.
    pub last_reset: Option<LastReset>,
}

/// How slow a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// How long it takes to boot.
    pub boot_milliseconds: u64,
    /// How long each change takes.
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

/// Server or agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum K3sRole {
    /// Part of the control plane.
    Server,
    /// A worker.
    Agent,
}

impl K3sRole {
    /// The name of its unit.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Server => "k3s.service",
            Self::Agent => "k3s-agent.service",
        }
    }

    /// What k3s is started as.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Agent => "agent",
        }
    }

    /// What a unit of this name runs, if it is k3s.
    pub fn of_unit(name: &str) -> Option<Self> {
        [Self::Server, Self::Agent].into_iter().find(|kind| kind.unit() == name)
    }
}

/// A service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Unit {
    /// Whether it starts with the machine.
    pub enabled: bool,
    /// Whether it runs.
    pub active: bool,
    /// How often it was started: what tells one run from the next.
    pub runs: u64,
    /// What it runs as, while it runs, if it is k3s.
    pub running: Option<Membership>,
}

/// What a running k3s is part of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Membership {
    /// The port of its cluster's API server, which is what tells clusters apart here.
    pub port: u16,
    /// The name of its Node.
    pub node: String,
    /// Whether it serves.
    pub kind: K3sRole,
}

/// The life of a machine under one claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Life {
    /// The claim.
    pub claim_id: String,
    /// How many steps of the bootstrap data have been carried out.
    pub steps_done: usize,
    /// How the bootstrap data fared, once that is known.
    pub ended: Option<Ended>,
    /// Whether the agent was started.
    pub enrolled: bool,
    /// Whether all this is being undone.
    pub resetting: bool,
    /// Paths that bootstrap data put there, the outermost first.
    pub paths: Vec<String>,
}

impl Life {
    /// The beginning.
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

/// How bootstrap data ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ended {
    /// It was carried out.
    Done,
    /// It was not.
    Failed {
        /// What was being done.
        step: String,
        /// How it ended, if it was a command.
        exit_code: Option<i32>,
        /// What it printed last.
        last_lines: Vec<String>,
    },
}

/// How a reset ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastReset {
    /// The claim that ended.
    pub claim_id: String,
    /// What is left. Nothing, if it is clean.
    pub left: Vec<String>,
}

impl State {
    /// A machine that was just made.
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

    /// The same machine, installed anew.
    pub fn wiped(&self, name: &str) -> Self {
        Self { machine_id: self.machine_id.clone(), latency: self.latency, ..Self::new(name) }
    }

    /// What a running k3s of this machine is part of.
    pub fn membership(&self) -> Option<&Membership> {
        self.units.values().find_map(|unit| unit.running.as_ref())
    }

    /// The version of k3s that a unit would start. An error is what it would complain of.
    ///
    /// # Errors
    /// If there is no such unit, or nothing that it could start.
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

    /// What a machine that nobody has should not have.
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
