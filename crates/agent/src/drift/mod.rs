//! Drift: something that a step has created on the machine is missing or has changed. Pure.
//!
//! | file | what |
//! |---|---|
//! | this file | results of checks of the current plan's steps |
//! | [`findings`] | the drift in a report |
//! | [`budget`] | limits of starts and restarts of a unit |
//! | [`reads`] | which units use what a step has created |
//! | [`window`] | whether a maintenance window is open |
//!
//! None of this is stored, except the starts of units: after a restart of the agent the machine is checked again.

mod budget;
mod findings;
mod reads;
mod window;

pub use budget::{Allowance, MOST_RESTARTS, Repair, may_repair};
pub(crate) use findings::Findings;
pub use reads::is_read_by;
pub(crate) use window::{WallClock, is_open};

use capstan_plan::{PlanId, StepName};
use std::collections::BTreeMap;

/// The result of the check of a step that has succeeded before with its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Its effect exists, or is only to be reported.
    AsMade,
    /// It must be done again.
    Drifted,
}

/// The results of checks of one plan's steps since the agent was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sights {
    plan: Option<PlanId>,
    seen: BTreeMap<StepName, Sight>,
}

impl Sights {
    /// The result of the check of a step of this plan; `None` if it was not checked.
    pub fn of(&self, plan: PlanId, step: &StepName) -> Option<Sight> {
        self.seen.get(step).copied().filter(|_| self.plan == Some(plan))
    }

    /// Records the result of a check of this plan. Results of other plans are removed.
    pub fn saw(&mut self, plan: PlanId, step: StepName, sight: Sight) {
        if self.plan != Some(plan) {
            *self = Self { plan: Some(plan), seen: BTreeMap::new() };
        }
        self.seen.insert(step, sight);
    }
}
