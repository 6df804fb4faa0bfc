//! The steps of a plan.

use serde::{Deserialize, Serialize};

use super::{Artifact, Command, Gate, Target, Unit};
use crate::{Content, MachinePath, Mode, StepName};

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Its name, unique among the steps of the plan.
    pub name: StepName,

    /// Timeout of one attempt.
    pub timeout_seconds: u32,

    /// When the step is repeated.
    pub repeat: Repeat,

    /// Retries after a transient failure. If absent, there is one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,

    /// Earlier steps whose inputs are also inputs of this one: a restart names the files that it is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<StepName>,

    /// What is done about what the step has put on the machine when it is found changed. For files, folders, artifacts
    /// and units. It is not an input of the step.
    #[serde(default, skip_serializing_if = "is_repaired")]
    pub on_drift: OnDrift,

    /// The action.
    pub action: Action,
}

impl Step {
    /// A step with one attempt of at most a minute, repeated until it has succeeded with its inputs.
    pub fn new(name: StepName, action: Action) -> Self {
        Self {
            name,
            timeout_seconds: 60,
            repeat: Repeat::UntilSuccess,
            retry: None,
            inputs: Vec::new(),
            on_drift: OnDrift::default(),
            action,
        }
    }

    /// The path that it writes, if it does.
    pub fn path(&self) -> Option<MachinePath> {
        match &self.action {
            Action::File(file) => Some(file.path.clone()),
            Action::Directory(directory) => Some(directory.path.clone()),
            Action::Artifact(artifact) => Some(artifact.path.clone()),
            Action::Unit(unit) => Some(unit.path()),
            Action::Command(_) | Action::Check(_) | Action::Gate(_) => None,
        }
    }
}

/// When a step is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Repeat {
    /// At most once for each digest of its inputs, whatever the result, for as long as the machine has its claim. An
    /// interrupted command, whose effect is unknown, is not repeated either: its guard decides whether it counts as
    /// done, and without a guard the plan fails with that reason. For idempotent actions (everything except commands)
    /// it is the same as `untilSuccess`.
    Once,
    /// In every revision of the plan that contains it.
    Always,
    /// Until it has succeeded with its inputs, and again when they change.
    UntilSuccess,
}

/// What is done about drift: something that a step has put on the machine is not there any more, or is another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnDrift {
    /// It is made again, and reported. What restarts a unit for that is limited in number and waits for gates.
    #[default]
    Repair,
    /// It is reported, and left as it is; also by later plans in which the step has the same inputs.
    Report,
    /// As `repair` while one of the `repairWindows` of the plan is open and, if it has any, one of its `hostWindows`. As `report`
    /// otherwise.
    RepairInWindow,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_repaired(policy: &OnDrift) -> bool {
    matches!(policy, OnDrift::Repair)
}

/// Number of attempts, and the exponential backoff between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retry {
    /// Number of attempts.
    pub attempts: u32,

    /// Delay after the first attempt.
    pub delay_seconds: u32,

    /// Longest delay. Equal to `delaySeconds` for a constant interval.
    pub max_delay_seconds: u32,
}

impl Retry {
    /// This number of attempts at a constant interval, for checks.
    pub const fn every(delay_seconds: u32, attempts: u32) -> Self {
        Self { attempts, delay_seconds, max_delay_seconds: delay_seconds }
    }
}

/// The action of a step. Unknown kinds are rejected by name when a plan is parsed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Write a file.
    File(File),
    /// Create a folder.
    Directory(Directory),
    /// Run a command.
    Command(Command),
    /// Wait until a check succeeds.
    Check(Check),
    /// Download and install an artifact.
    Artifact(Artifact),
    /// Run a systemd unit.
    Unit(Unit),
    /// Wait until the gate is opened.
    Gate(Gate),
}

impl Action {
    /// Whether the action is idempotent, so that it may be repeated after an interruption, independent of its repeat
    /// rule.
    pub const fn is_idempotent(&self) -> bool {
        !matches!(self, Self::Command(_))
    }
}

/// A file. It is written atomically; a symbolic link in its path is an error. The previous content is restored when
/// the file is no longer in the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct File {
    /// Its path. Missing folders are created, and belong to the plan as long as the file does.
    pub path: MachinePath,

    /// Its content.
    pub content: Content,

    /// Its permissions.
    pub mode: Mode,

    /// User ID of its owner.
    pub owner: u32,

    /// ID of its group.
    pub group: u32,

    /// Whether its content must never appear in a report.
    #[serde(default, skip_serializing_if = "is_false")]
    pub secret: bool,
}

/// A folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Directory {
    /// Its path.
    pub path: MachinePath,

    /// Its permissions.
    pub mode: Mode,

    /// User ID of its owner.
    pub owner: u32,

    /// ID of its group.
    pub group: u32,
}

/// A check that must succeed before the plan continues. Repeated as `retry` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Check {
    /// The target.
    pub target: Target,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
pub(super) const fn is_false(value: &bool) -> bool {
    !*value
}
