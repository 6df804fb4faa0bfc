//! What to do about a command that an earlier process of the agent has started: a pure function of its key, the plan and
//! what has been done.

use capstan_plan::{Action, VerifiedPlan};

use crate::journal::History;
use crate::machine::CommandKey;

/// What to do about a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Wait for it, and take its result as the result of the attempt.
    TakeOver {
        /// The step of the plan that has the command, counted from 0.
        step: usize,
    },
    /// End it with grace, if it still runs, and forget it.
    Dismiss,
    /// Nothing: what started it comes to it again.
    Leave,
}

/// What to do about a command before this plan, which is in order, is carried on with.
///
/// A newer plan with the same step and the same inputs does not replace the command: an agent that was not restarted
/// would have finished it, and if it must not run twice nobody could start it again.
pub fn fate(key: &CommandKey, plan: &VerifiedPlan, history: &History) -> Fate {
    let CommandKey::Step { step: name, inputs, .. } = key else { return leave_or_dismiss(plan, history) };
    if history.open_attempt().is_none_or(|attempt| attempt.key(*inputs) != *key) {
        // Its result was written down.
        return Fate::Dismiss;
    }
    let steps = &plan.plan().steps;
    let index = steps.iter().position(|step| {
        step.name == *name && matches!(step.action, Action::Command(_)) && plan.inputs(step) == *inputs
    });
    index.map_or(Fate::Dismiss, |step| Fate::TakeOver { step })
}

/// The stop command of a unit: the plan that gives the unit back comes to it again. A newer plan may not.
fn leave_or_dismiss(plan: &VerifiedPlan, history: &History) -> Fate {
    let is_current = history.current.as_ref().is_some_and(|current| current.plan == plan.id());
    if is_current { Fate::Leave } else { Fate::Dismiss }
}
