//! Keys of commands: a restarted agent uses them to find the commands that an earlier process has started.

use capstan_plan::{Digest, PlanId, StepName, Stop, Undo, UnitName};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

use super::{MachineError, Ran};

/// Identifies one run of a command that changes the machine. Two runs that may both have an effect have different
/// keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum CommandKey {
    /// The command of a step.
    Step {
        /// The plan that has the step.
        plan: PlanId,
        /// The step.
        step: StepName,
        /// The digest of the inputs it runs with.
        inputs: Digest,
        /// The attempt at the step in this plan, counted from 1.
        attempt: u32,
    },
    /// The command that undoes a step on reset.
    Undo {
        /// The step.
        step: StepName,
        /// The digest of the undo command.
        undo: Digest,
    },
    /// The command that stops what a unit leaves running.
    Stop {
        /// The unit.
        unit: UnitName,
        /// The digest of the stop command.
        stop: Digest,
    },
    /// A run of a periodic command.
    Periodic {
        /// The name of the command.
        name: StepName,
        /// The digest of its command line.
        command: Digest,
        /// When the run began.
        begun: Timestamp,
    },
    /// An instruction of a plan of rancher/system-agent.
    Instruction {
        /// The checksum of the plan.
        plan: Digest,
        /// Its number in its list, counted from 0.
        number: u32,
        /// Whether it is in the list of periodic instructions.
        periodic: bool,
        /// When this run of the plan began.
        begun: Timestamp,
    },
}

impl CommandKey {
    /// The key of an undo command.
    pub fn undo(step: &StepName, undo: &Undo) -> Self {
        Self::Undo { step: step.clone(), undo: digest(undo) }
    }

    /// The key of a stop command.
    pub fn stop(unit: &UnitName, stop: &Stop) -> Self {
        Self::Stop { unit: unit.clone(), stop: digest(stop) }
    }

    /// A name of fixed length, without secrets.
    pub fn digest(&self) -> Digest {
        digest(self)
    }
}

fn digest(value: &impl Serialize) -> Digest {
    Digest::of(&serde_json::to_vec(value).expect("texts and numbers are JSON"))
}

impl fmt::Display for CommandKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step { step, .. } => write!(f, "command of step {step}"),
            Self::Undo { step, .. } => write!(f, "undo command of step {step}"),
            Self::Stop { unit, .. } => write!(f, "stop command of unit {unit}"),
            Self::Periodic { name, .. } => write!(f, "periodic command {name}"),
            Self::Instruction { number, periodic: false, .. } => write!(f, "command of instruction {number}"),
            Self::Instruction { number, periodic: true, .. } => {
                write!(f, "command of periodic instruction {number}")
            }
        }
    }
}

/// The state of a command that an earlier process of the agent has started.
#[derive(Debug)]
pub enum Resumed {
    /// It was never started, or ended before its result was recorded. It does not run.
    Nothing,
    /// It has ended, with this result.
    Ended(Ran),
    /// It could not be started.
    NotStarted(MachineError),
}
