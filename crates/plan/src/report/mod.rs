//! The agent's report about a machine: the content of the status of a MachineReport.
//!
//! Every statement about a plan contains the plan's [`PlanId`], so that "applied" or "failed" always refers to bytes
//! that were executed. The report is serialized as the status of a MachineReport, field by field. Values that are too
//! long for that schema are truncated, because an API server would reject the whole report.

mod program;
mod wire;

pub use program::{RejectedProgram, ReportedProgram};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Capabilities, KeyId, PlanId, ReportedCapabilities, StepName};

/// The report of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "wire::Status", into = "wire::Status")]
pub struct Report {
    /// The state of the plan.
    pub standing: Standing,

    /// The latest applied plan, if that is not the one in `standing`.
    pub applied: Option<PlanId>,

    /// What the other steps of the plan have printed last, the newest first. The current step is in `standing`.
    pub outputs: Vec<StepTail>,

    /// Results of the probes. Those without a result are omitted.
    pub probes: Vec<ProbeResult>,

    /// The last runs of the periodic commands. Those that have not run are omitted.
    pub periodic: Vec<PeriodicResult>,

    /// What was found changed on the machine since its plan was applied, the newest first.
    pub drift: Vec<Drift>,

    /// Facts about the machine.
    pub facts: Option<Facts>,

    /// The agent's ledger; none if there is nothing to undo.
    pub ledger: Option<Ledger>,

    /// ID of the key that the agent verifies plans with. Agents that cannot follow to another key do not report it.
    pub plan_key: Option<KeyId>,

    /// Why the agent cannot work at all, whatever the plan is.
    pub problem: Option<String>,

    /// Version of the agent.
    pub agent_version: Option<String>,

    /// What the agent understands beyond the first release.
    pub capabilities: Option<ReportedCapabilities>,

    /// The program of the agent. An agent that cannot replace itself does not report it.
    pub agent_program: Option<ReportedProgram>,

    /// When the agent wrote it.
    pub last_updated: Option<Timestamp>,
}

/// A report that contradicts itself. A reader must expect a hostile machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostileReport {
    /// Progress without a plan.
    #[error("the report has a phase or a step, but names no plan")]
    NoPlan,
    /// The phase is `Applied`, and `applied` names another plan.
    #[error("the report says Applied of a plan that is not the one it says was applied last")]
    NotApplied,
    /// A step beyond the last one.
    #[error("the report is at a step that the plan does not have")]
    NoStep,
}

impl Report {
    /// The latest applied plan.
    pub fn applied(&self) -> Option<PlanId> {
        match &self.standing {
            Standing::Plan(progress) if progress.phase == Phase::Applied => Some(progress.plan),
            _ => self.applied,
        }
    }

    /// What the agent understands. `None` while no agent has reported.
    pub fn capabilities(&self) -> Option<Capabilities> {
        match (&self.agent_version, &self.capabilities) {
            // An agent that enrols names its capabilities first and its version last.
            (None, reported) => reported.as_ref().map(ReportedCapabilities::known),
            (Some(version), Some(reported)) if reported.agent_version == *version => Some(reported.known()),
            (Some(_), _) => Some(Capabilities::FIRST_RELEASE),
        }
    }

    /// The progress of this plan; `None` if the report is about another one.
    pub fn about(&self, plan: PlanId) -> Option<&Progress> {
        match &self.standing {
            Standing::Plan(progress) if progress.plan == plan => Some(progress),
            _ => None,
        }
    }
}

/// The state of the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one of it in a report, and it is nearly always a plan"
)]
pub enum Standing {
    /// There is no plan yet.
    #[default]
    Idle,
    /// The plan Secret cannot be parsed, and has no revision that identifies it.
    Unreadable {
        /// Why it cannot be parsed.
        message: String,
    },
    /// The progress of a plan.
    Plan(Progress),
}

/// The progress of one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The plan.
    pub plan: PlanId,

    /// Its phase.
    pub phase: Phase,

    /// The current step, or the last one.
    pub step: Option<StepProgress>,

    /// Why it stopped or waits, for users.
    pub message: Option<String>,

    /// Output of the step.
    pub output: StepOutput,

    /// Number of attempts of the step.
    pub attempts: Option<u32>,
}

impl Progress {
    /// Progress with this phase only.
    pub const fn new(plan: PlanId, phase: Phase) -> Self {
        let output = StepOutput { stdout: None, stderr: None };
        Self { plan, phase, step: None, message: None, output, attempts: None }
    }

    /// The progress of a rejected plan.
    pub fn refused(plan: PlanId, reason: impl std::fmt::Display) -> Self {
        Self { message: Some(reason.to_string()), ..Self::new(plan, Phase::Refused) }
    }
}

/// The phase of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Its steps are being executed.
    Applying,
    /// It waits at a gate.
    Waiting,
    /// All steps are done.
    Applied,
    /// A step has failed permanently; nothing more is tried until there is another plan.
    Failed,
    /// It is rejected.
    Refused,
}

/// The current step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepProgress {
    /// Name of the step.
    pub name: StepName,

    /// Its number, from 1.
    pub index: u32,

    /// Number of steps.
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

/// Output of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOutput {
    /// Standard output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Excerpt>,

    /// Standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Excerpt>,
}

impl StepOutput {
    /// Whether there is no output.
    pub const fn is_empty(&self) -> bool {
        self.stdout.is_none() && self.stderr.is_none()
    }
}

/// The end of what a step has printed in its last attempt. Redacted, because all readers of reports can see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepTail {
    /// Name of the step.
    pub step: StepName,

    /// Exit code, if it runs a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,

    /// When the attempt ended.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::time::option")]
    pub finished: Option<Timestamp>,

    /// End of its standard output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,

    /// End of its standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
}

/// The beginning and the end of a text. Redacted, because all readers of reports can see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Excerpt {
    /// The beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,

    /// The end, if bytes in between are omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<String>,

    /// Number of omitted bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted_bytes: Option<u64>,
}

impl Excerpt {
    /// Number of characters that are kept at each end.
    pub const CHARACTERS: usize = 4096;
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeResult {
    /// Name of the probe.
    pub name: StepName,

    /// Whether it is healthy.
    pub healthy: bool,

    /// Message for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Since when it has this result.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::time::option")]
    pub since: Option<Timestamp>,
}

/// The last run of a periodic command. Redacted, because all readers of reports can see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PeriodicResult {
    /// Name of the command.
    pub name: StepName,

    /// When it began.
    #[serde(with = "crate::time")]
    pub started: Timestamp,

    /// When it ended. None while it runs, and if the agent ended before it did.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::time::option")]
    pub finished: Option<Timestamp>,

    /// Exit code, if it has exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,

    /// Number of failed runs since the last success. 0 if the last run that has ended succeeded.
    #[serde(default)]
    pub failures: u32,

    /// Why it failed, for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// End of its standard output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,

    /// End of its standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
}

/// Something that a step has put on the machine and that was found changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Drift {
    /// Name of the step.
    pub step: StepName,

    /// What was found, for users.
    pub found: String,

    /// When it was found.
    #[serde(with = "crate::time")]
    pub since: Timestamp,

    /// When it was as the plan says again. None while it is not.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::time::option")]
    pub repaired: Option<Timestamp>,

    /// Why it is not repaired, or what was done, for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// How often it was found since the agent was started.
    pub times: u32,
}

/// The changes of the agent on a machine that a reset undoes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ledger {
    /// Number of items.
    pub total: u32,

    /// The newest items, the last one first.
    pub items: Vec<LedgerItem>,
}

/// One change that a reset undoes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerItem {
    /// Kind of item.
    pub kind: LedgerKind,

    /// Its path; for a command, the name of the step that ran it.
    pub name: String,

    /// What was at the path before; none for a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<LedgerBefore>,
}

/// Kinds of items in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LedgerKind {
    /// A file.
    File,
    /// A folder.
    Directory,
    /// A file or a folder that was downloaded.
    Artifact,
    /// The file of a systemd unit.
    Unit,
    /// A command that has an undo command.
    Command,
}

/// What was at a path before the agent wrote it. That is what a reset restores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LedgerBefore {
    /// Nothing: a reset removes the path.
    Nothing,
    /// A file: a reset restores its content.
    File,
    /// A folder: a reset keeps it.
    Directory,
}

/// Facts that a machine reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// Host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,

    /// Machine ID of the operating system.
    #[serde(rename = "machineID", default, skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,

    /// Boot ID, which changes with every boot.
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
