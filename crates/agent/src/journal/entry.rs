//! The lines of the journal.

use capstan_plan::{
    Digest, Epoch, MachineIdentity, MachinePath, PlanId, StepName, StepOutput, Undo, UnitName,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::History;
use crate::ledger::Holding;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Entry {
    /// The sum of all lines that stood here before.
    Snapshot(Box<History>),
    /// From here on this plan is carried out.
    Accepted {
        /// Which.
        plan: PlanId,
        /// For whom.
        machine: MachineIdentity,
        /// By whom.
        epoch: Epoch,
    },
    /// Another manager has taken this machine over: nothing that an earlier one orders is carried out any more.
    Follows {
        /// Which.
        epoch: Epoch,
    },
    /// A step is about to be tried. Before it.
    Began {
        /// Which step.
        step: StepName,
        /// The digest of its inputs.
        inputs: Digest,
        /// Whether it must not be tried a second time, come what may.
        once: bool,
        /// How to undo it on a reset, and how long that may take.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        undo: Option<(Undo, u32)>,
        /// When.
        at: Timestamp,
    },
    /// A step has been tried. After it.
    Ended {
        /// Which step.
        step: StepName,
        /// The digest of its inputs.
        inputs: Digest,
        /// What came of it.
        outcome: Outcome,
        /// When.
        at: Timestamp,
    },
    /// A path is about to be written. Before it.
    Took(Holding),
    /// A path is again as it was before we came. After it.
    Released {
        /// Which.
        path: MachinePath,
    },
    /// A folder should have left the machine with this plan, but others use it.
    Stayed {
        /// Which.
        path: MachinePath,
    },
    /// A unit is about to be started, or started anew. Before it.
    Starting {
        /// Which.
        unit: UnitName,
        /// The digest of the inputs it is started with.
        inputs: Digest,
        /// What systemd calls its run so far; empty if there was none. Another one says that it was started.
        instead_of: String,
    },
    /// Every step of the plan has been done.
    Finished {
        /// Which plan.
        plan: PlanId,
    },
    /// The plan has failed for good.
    Stopped {
        /// Which plan.
        plan: PlanId,
        /// The step it failed at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepName>,
        /// Why.
        reason: String,
    },
    /// From here on everything is taken back, and no plan is obeyed.
    ResetBegan,
    /// The effect of a command was taken back. After it.
    Undone {
        /// The step that ran it.
        step: StepName,
        /// How it was undone.
        undo: Undo,
        /// Paths that it has left on purpose.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        keeps: Vec<MachinePath>,
    },
    /// Everything has been taken back.
    ResetEnded,
}

/// What came of an attempt. Without secrets: it is what is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Exit code of its command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What its command printed.
    #[serde(default, skip_serializing_if = "StepOutput::is_empty")]
    pub output: StepOutput,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// Whether it may pass.
    pub class: Class,
    /// Whether its command was started, so that it must not be run again if it is one to run once.
    pub ran: bool,
    /// Why, for people.
    pub message: String,
}

/// Whether a failure may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Class {
    /// It may pass.
    Transient,
    /// It will not pass.
    Permanent,
}

impl Outcome {
    /// All is well.
    pub fn success() -> Self {
        Self::default()
    }

    /// It failed before anything was done that must not be done twice.
    pub fn failure(class: Class, message: impl Into<String>) -> Self {
        Self { failure: Some(Failure { class, ran: false, message: message.into() }), ..Self::default() }
    }
}
