//! What to do about a command that an earlier process of the agent has started: a pure function of its key, the plan
//! and the journal.

use capstan_plan::{Action, OpenGates, VerifiedPlan};

use crate::journal::History;
use crate::ledger::After;
use crate::machine::CommandKey;

/// What to do about a command that an earlier process has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandFate {
    /// Wait for it, and use its result as the result of the attempt.
    TakeOver {
        /// The step of the plan that has the command, counted from 0.
        step: usize,
    },
    /// Terminate it gracefully if it still runs, and remove its record.
    Dismiss,
    /// The same, and record that its plan was cancelled.
    Cancel,
    /// Nothing: the plan reaches it again.
    Leave,
}

/// What to do about a command before this plan, which is valid, is continued.
///
/// The command of a plan that is cancelled is ended. Apart from that, a newer plan with the same step and the same inputs does not replace it: an agent that was not restarted
/// would have finished it, and the engine could not start it again if it must not run twice.
pub fn fate(key: &CommandKey, plan: &VerifiedPlan, gates: &OpenGates, history: &History) -> CommandFate {
    match key {
        CommandKey::Step { plan: of, step, inputs, .. } => {
            if history.open_attempt().is_none_or(|attempt| attempt.key(*inputs) != *key) {
                // Its result was written down.
                return CommandFate::Dismiss;
            }
            if gates.cancels(*of) {
                return CommandFate::Cancel;
            }
            let index = plan.plan().steps.iter().position(|other| {
                let is_command = matches!(other.action, Action::Command(_));
                other.name == *step && is_command && plan.inputs(other) == *inputs
            });
            index.map_or(CommandFate::Dismiss, |step| CommandFate::TakeOver { step })
        }
        // The plan that gives a unit back comes to its stop command again. A newer one may not.
        CommandKey::Stop { unit, .. } => {
            let is_current = history.current.as_ref().is_some_and(|current| current.plan == plan.id());
            let is_held = history
                .ledger
                .holdings()
                .any(|holding| matches!(&holding.after, After::Unit { name, .. } if name == unit));
            if is_current && is_held { CommandFate::Leave } else { CommandFate::Dismiss }
        }
        // Only a reset undoes, and it does not come here. Periodic commands run while no plan is carried out. An enrolled agent
        // has no instructions.
        CommandKey::Undo { .. } | CommandKey::Periodic { .. } | CommandKey::Instruction { .. } => {
            CommandFate::Dismiss
        }
    }
}
