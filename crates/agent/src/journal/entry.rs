//! The lines of the journal.

use capstan_plan::{
    Digest, Epoch, MachineIdentity, MachinePath, PlanId, PublicKey, StepName, StepOutput, UnitName,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::History;
use crate::drift::Repair;
use crate::ledger::Holding;
use crate::owed::{KEPT_VARIABLES, OwedUndo};

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Entry {
    /// The summary of all earlier lines.
    Snapshot(Box<History>),
    /// A plan was accepted.
    Accepted {
        /// The plan.
        plan: PlanId,
        /// The machine of the plan.
        machine: MachineIdentity,
        /// The manager that signed it.
        epoch: Epoch,
    },
    /// The machine follows another manager: plans of earlier epochs are rejected.
    Follows {
        /// The manager.
        epoch: Epoch,
    },
    /// The plan key is replaced by a successor, and no longer trusted.
    Trusts {
        /// The key that is trusted from now on.
        key: PublicKey,
    },
    /// A step is about to be tried. Written before it.
    Began {
        /// The step.
        step: StepName,
        /// The digest of its inputs.
        inputs: Digest,
        /// Whether it must not be tried a second time.
        once: bool,
        /// How to undo it on a reset, and the timeout of that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        undo: Option<(OwedUndo, u32)>,
        /// The time.
        at: Timestamp,
    },
    /// A step was tried. Written after it.
    Ended {
        /// The step.
        step: StepName,
        /// The digest of its inputs.
        inputs: Digest,
        /// The result.
        outcome: Outcome,
        /// The time.
        at: Timestamp,
    },
    /// A path is about to be written. Written before it.
    Took(Holding),
    /// A path was restored. Written after it.
    Released {
        /// The path.
        path: MachinePath,
    },
    /// A folder that is no longer in the plan was kept, because it is not empty.
    Stayed {
        /// The folder.
        path: MachinePath,
    },
    /// A unit is about to be started or restarted. Written before it.
    Starting {
        /// The unit.
        unit: UnitName,
        /// The digest of the inputs it is started with.
        inputs: Digest,
        /// The invocation ID before the start; empty if there was none. Another ID proves the start.
        instead_of: String,
        /// If drift is the reason: the number of the repair in a row. Agents of earlier versions ignore it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repair: Option<Repair>,
    },
    /// All steps of the plan are done.
    Finished {
        /// The plan.
        plan: PlanId,
    },
    /// The plan has failed permanently.
    Stopped {
        /// The plan.
        plan: PlanId,
        /// The step that failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepName>,
        /// The cause.
        reason: String,
    },
    /// A reset has begun: everything is undone, and no plan is accepted.
    ResetBegan,
    /// A command was undone. Written after it.
    Undone {
        /// The step that ran it.
        step: StepName,
        /// How it was undone.
        undo: OwedUndo,
        /// Paths that it has kept on purpose.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        keeps: Vec<MachinePath>,
    },
    /// The reset is complete.
    ResetEnded,
}

impl Entry {
    /// What a reader must know, though it may be able to read the line without it.
    pub(crate) fn needs(&self) -> Vec<String> {
        let keeps = |undo: &OwedUndo| undo.kept().next().is_some();
        let is_needed = match self {
            Self::Began { undo: Some((undo, _)), .. } | Self::Undone { undo, .. } => keeps(undo),
            Self::Snapshot(history) => history.ledger.undos().any(keeps),
            _ => false,
        };
        is_needed.then(|| KEPT_VARIABLES.to_owned()).into_iter().collect()
    }
}

/// The outcome of an attempt. It is reported, so it contains no secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The failure, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Exit code of its command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Output of its command.
    #[serde(default, skip_serializing_if = "StepOutput::is_empty")]
    pub output: StepOutput,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// Whether a retry may succeed.
    pub class: Class,
    /// Whether its command was started, so that a command that runs once must not run again.
    pub ran: bool,
    /// Whether a disk was full. Then the step is retried without a limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_full: bool,
    /// The message for users.
    pub message: String,
}

/// Whether a retry may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Class {
    /// A retry may succeed.
    Transient,
    /// A retry does not help.
    Permanent,
}

impl Outcome {
    /// A successful attempt.
    pub fn success() -> Self {
        Self::default()
    }

    /// An attempt that failed before its command was started.
    pub fn failure(class: Class, message: impl Into<String>) -> Self {
        Self {
            failure: Some(Failure { class, ran: false, is_full: false, message: message.into() }),
            ..Self::default()
        }
    }
}
