//! Drift: something that a step has put on the machine is not there any more, or is another. Pure.
//!
//! | file | what |
//! |---|---|
//! | here | what was seen of the steps of the current plan |
//! | [`findings`] | what is told of it |
//! | [`budget`] | how often a unit is started or restarted for it |
//! | [`reads`] | which units run what a step has put there |
//!
//! Nothing in here is written down, except for the starts of units: after a restart of the agent the machine is looked at again.

mod budget;
mod findings;
mod reads;

pub use budget::{Allowance, MOST_RESTARTS, Repair, may_repair};
pub(crate) use findings::Findings;
pub use reads::is_read_by;

use capstan_plan::{PlanId, StepName};
use std::collections::BTreeMap;

/// What was seen of a step that has succeeded before with its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// What it has put on the machine is there, or is to be left as it is.
    AsMade,
    /// It must be done again.
    Drifted,
}

/// What was seen of the steps of one plan since the agent was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sights {
    plan: Option<PlanId>,
    seen: BTreeMap<StepName, Sight>,
}

impl Sights {
    /// What was seen of a step of this plan; none if it was not looked at.
    pub fn of(&self, plan: PlanId, step: &StepName) -> Option<Sight> {
        self.seen.get(step).copied().filter(|_| self.plan == Some(plan))
    }

    /// A step of this plan was looked at. What was seen in other plans is forgotten.
    pub fn saw(&mut self, plan: PlanId, step: StepName, sight: Sight) {
        if self.plan != Some(plan) {
            *self = Self { plan: Some(plan), seen: BTreeMap::new() };
        }
        self.seen.insert(step, sight);
    }
}
