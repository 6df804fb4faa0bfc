//! What an agent says of a machine: the value behind the status of MachineReport.
//!
//! Every word about a plan carries the plan's [`PlanId`], so that "applied" or "failed" can never be said of
//! bytes that did not run. On the wire it is the status of MachineReport, field by field; what would be too long
//! for that schema is cut when it is written, because an API server refuses such a report as a whole.

mod wire;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{PlanId, StepName};

/// Everything an agent says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "wire::Status", into = "wire::Status")]
pub struct Report {
    /// How it stands with the plan.
    pub standing: Standing,

    /// The newest plan that was carried out to its end, if that is not the one in `standing`.
    pub applied: Option<PlanId>,

    /// What the probes found. Those that have no answer yet are missing.
    pub probes: Vec<ProbeResult>,

    /// What the machine says of itself.
    pub facts: Option<Facts>,

    /// Version of the agent.
    pub agent_version: Option<String>,

    /// When the agent wrote it.
    pub last_updated: Option<Timestamp>,
}

/// A report that contradicts itself. Whoever reads reports must expect a hostile machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostileReport {
    /// A word about a plan, without the plan.
    #[error("the report has a phase or a step, but names no plan")]
    NoPlan,
    /// Done, and not done.
    #[error("the report says Applied of a plan that is not the one it says was applied last")]
    NotApplied,
    /// A step beyond the last.
    #[error("the report is at a step that the plan does not have")]
    NoStep,
}

impl Report {
    /// The newest plan that was carried out to its end.
    pub fn applied(&self) -> Option<PlanId> {
        match &self.standing {
            Standing::Plan(progress) if progress.phase == Phase::Applied => Some(progress.plan),
            _ => self.applied,
        }
    }

    /// What it says of this very plan; nothing if it speaks of another one.
    pub fn about(&self, plan: PlanId) -> Option<&Progress> {
        match &self.standing {
            Standing::Plan(progress) if progress.plan == plan => Some(progress),
            _ => None,
        }
    }
}

/// How it stands with the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of it in a report, and it is nearly always a plan"
)]
pub enum Standing {
    /// There was no plan yet.
    #[default]
    Idle,
    /// What should be a plan does not even have a revision to name it by.
    Unreadable {
        /// Why.
        message: String,
    },
    /// How it goes with a plan.
    Plan(Progress),
}

/// How it goes with one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The plan this is about.
    pub plan: PlanId,

    /// How it goes.
    pub phase: Phase,

    /// The step that is carried out, or was last.
    pub step: Option<StepProgress>,

    /// Why it stopped or waits, for people.
    pub message: Option<String>,

    /// What the step printed.
    pub output: StepOutput,

    /// How often the step has been tried.
    pub attempts: Option<u32>,
}

impl Progress {
    /// So far, and no more to say.
    pub const fn new(plan: PlanId, phase: Phase) -> Self {
        let output = StepOutput { stdout: None, stderr: None };
        Self { plan, phase, step: None, message: None, output, attempts: None }
    }

    /// A plan that is not carried out.
    pub fn refused(plan: PlanId, reason: impl std::fmt::Display) -> Self {
        Self { message: Some(reason.to_string()), ..Self::new(plan, Phase::Refused) }
    }
}

/// How a plan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Its steps are being carried out.
    Applying,
    /// It waits for somebody else.
    Waiting,
    /// Every step has been carried out.
    Applied,
    /// A step failed for good; nothing more is tried until there is another plan.
    Failed,
    /// It will not be carried out.
    Refused,
}

/// Where in a plan the agent is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepProgress {
    /// Name of the step.
    pub name: StepName,

    /// Its place among the steps, counted from 1.
    pub index: u32,

    /// How many steps there are.
    pub total: u32,

    /// Exit code, if it runs a command and that has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,

    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::time::option")]
    pub started: Option<Timestamp>,

    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::time::option")]
    pub finished: Option<Timestamp>,
}

/// What a step printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOutput {
    /// What it printed to standard output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Excerpt>,

    /// What it printed to standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Excerpt>,
}

impl StepOutput {
    /// Whether nothing was printed.
    pub const fn is_empty(&self) -> bool {
        self.stdout.is_none() && self.stderr.is_none()
    }
}

/// The beginning and the end of a text. Redacted: what is in here may be read by whoever reads reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Excerpt {
    /// How it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,

    /// How it ends, when something was left out between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<String>,

    /// How many bytes were left out between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted_bytes: Option<u64>,
}

impl Excerpt {
    /// How many characters of each end are kept.
    pub const CHARACTERS: usize = 4096;
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeResult {
    /// Name of the probe.
    pub name: StepName,

    /// Whether all is well.
    pub healthy: bool,

    /// What was found, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Since when it has been so.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::time::option")]
    pub since: Option<Timestamp>,
}

/// What a machine says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// Name it has given itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,

    /// Machine ID of the operating system.
    #[serde(rename = "machineID", default, skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,

    /// Changes with every boot.
    #[serde(rename = "bootID", default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,

    /// Name of the operating system and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_image: Option<String>,

    /// Version of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_version: Option<String>,

    /// Processor architecture, such as `amd64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,

    /// Number of processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,

    /// Size of the memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}
