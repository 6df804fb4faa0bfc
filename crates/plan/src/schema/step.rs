//! The steps of a plan.

use serde::{Deserialize, Serialize};

use super::{Artifact, Command, Gate, Target, Unit};
use crate::{Content, MachinePath, Mode, StepName};

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Its name, unique among the steps of the plan.
    pub name: StepName,

    /// How long one attempt may take.
    pub timeout_seconds: u32,

    /// When it is done again.
    pub repeat: Repeat,

    /// How often it is tried when it fails for a reason that may pass. Once, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,

    /// Earlier steps whose inputs count as inputs of this one too: a restart names the files it is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<StepName>,

    /// What to do.
    pub action: Action,
}

impl Step {
    /// A step with a minute for its one attempt, done until it has succeeded with its inputs.
    pub fn new(name: StepName, action: Action) -> Self {
        Self {
            name,
            timeout_seconds: 60,
            repeat: Repeat::UntilSuccess,
            retry: None,
            inputs: Vec::new(),
            action,
        }
    }

    /// The path it puts on the machine, if it does.
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

/// When a step is done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Repeat {
    /// At most once for each digest of its inputs, whatever came of it, for as long as the machine has its claim.
    /// A command that was interrupted, and may or may not have had its effect, is not repeated either: its guard
    /// decides whether it counts as done, and without one the plan fails and says so. For what may be done twice
    /// without harm (everything but commands) it is the same as `untilSuccess`.
    Once,
    /// In every revision of the plan that has it.
    Always,
    /// Until it has succeeded with its inputs; again when they have changed since.
    UntilSuccess,
}

/// How often to try, and how long to wait between: each time twice as long, up to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retry {
    /// How often to try in all.
    pub attempts: u32,

    /// How long to wait after the first attempt.
    pub delay_seconds: u32,

    /// How long to wait at most. The same as `delaySeconds` for a steady interval.
    pub max_delay_seconds: u32,
}

impl Retry {
    /// So many attempts at a steady interval, as a check wants them.
    pub const fn every(delay_seconds: u32, attempts: u32) -> Self {
        Self { attempts, delay_seconds, max_delay_seconds: delay_seconds }
    }
}

/// What a step does. Kinds that are not here yet are refused by name when a plan is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// There is a file.
    File(File),
    /// There is a folder.
    Directory(Directory),
    /// A command is run.
    Command(Command),
    /// Something is found to be so.
    Check(Check),
    /// Something large is fetched and put in its place.
    Artifact(Artifact),
    /// A unit of systemd runs.
    Unit(Unit),
    /// Somebody says that the plan may go on.
    Gate(Gate),
}

impl Action {
    /// Whether doing it twice is the same as doing it once, so that it may be repeated after an interruption
    /// whatever its repeat rule.
    pub const fn is_idempotent(&self) -> bool {
        !matches!(self, Self::Command(_))
    }
}

/// A file. It is written whole and at once; a symbolic link on the way to it is an error. What was there before
/// comes back when the file leaves the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct File {
    /// Where it is. Missing folders on the way are made, and belong to the plan as long as it does.
    pub path: MachinePath,

    /// What is in it.
    pub content: Content,

    /// Who may read, write and execute it.
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
    /// Where it is.
    pub path: MachinePath,

    /// Who may read, write and enter it.
    pub mode: Mode,

    /// User ID of its owner.
    pub owner: u32,

    /// ID of its group.
    pub group: u32,
}

/// Something that must be found to be so before the plan goes on. Tried as often as `retry` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Check {
    /// What is asked.
    pub target: Target,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
pub(super) const fn is_false(value: &bool) -> bool {
    !*value
}
