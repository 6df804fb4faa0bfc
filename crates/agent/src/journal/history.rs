//! The state that the journal describes: the plans of this machine and their effects.

use capstan_plan::{
    Digest, Epoch, MachineIdentity, MachinePath, PlanId, PublicKey, Revision, StepName, StepOutput, StepTail,
    UnitName,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use super::{Entry, Failure, Outcome};
use crate::drift::Repair;
use crate::ledger::{After, Holding, Ledger};
use crate::machine::CommandKey;
use crate::outputs;

/// The state that follows from the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct History {
    /// The machine of the plans.
    pub machine: Option<MachineIdentity>,
    /// The last epoch that was accepted. It only increases.
    pub epoch: Epoch,
    /// The key that verifies plans, if it was replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_key: Option<PublicKey>,
    /// The current plan, or the last one.
    pub current: Option<Current>,
    /// The last plan that was applied.
    pub applied: Option<PlanId>,
    /// The inputs with which each step has succeeded, unless it was tried with other ones since.
    pub succeeded: BTreeMap<StepName, Digest>,
    /// The results of commands that must not run twice, by step and inputs.
    pub once: BTreeMap<StepName, BTreeMap<Digest, OnceRun>>,
    /// The inputs with which each unit was last started, or was about to be.
    pub units: BTreeMap<UnitName, Start>,
    /// What a reset must undo.
    pub ledger: Ledger,
    /// Whether a reset is in progress.
    pub resetting: bool,
    /// Paths that undo commands keep on purpose.
    pub keeps: BTreeSet<MachinePath>,
}

/// The last start of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Start {
    /// Digest of the inputs of the start.
    pub inputs: Digest,
    /// The invocation ID of the unit before the start. While systemd reports the same one, the unit was not started.
    pub instead_of: String,
    /// If it was started because of drift: the number of the repair in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
}

/// The progress of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Current {
    /// The plan.
    pub plan: PlanId,
    /// Steps that have succeeded.
    pub done: BTreeSet<StepName>,
    /// The attempts of the other steps.
    pub tries: BTreeMap<StepName, Tries>,
    /// Folders that should have been removed but are in use.
    pub stays: BTreeSet<MachinePath>,
    /// The last attempt.
    pub last: Option<Attempt>,
    /// What its steps have printed last, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<StepTail>,
    /// The end of the plan, if it has ended.
    pub end: Option<End>,
}

/// The attempts of a step in this plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tries {
    /// Number of failures.
    pub failed: u32,
    /// Number of interruptions, without an open attempt.
    pub interrupted: u32,
    /// Number of attempts for which a disk was full. They do not count as failures of the step.
    #[serde(default)]
    pub full: u32,
    /// Whether an attempt has begun and not ended. This is never read while a step runs, so the attempt was
    /// interrupted.
    pub open: bool,
    /// The last failure.
    pub failure: Option<Failure>,
    /// The time of the last failure.
    pub at: Option<Timestamp>,
}

impl Tries {
    /// The number of the next attempt. A damaged journal may contain any number.
    fn next(&self) -> u32 {
        self.failed.saturating_add(self.interrupted).saturating_add(self.full).saturating_add(1)
    }
}

/// The last attempt of a step, as it is reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// The step.
    pub step: StepName,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// When it began; `None` if it began in an earlier plan.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub finished: Option<Timestamp>,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The end of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum End {
    /// All steps are done.
    Applied,
    /// A step has failed permanently.
    Failed {
        /// The step.
        step: Option<StepName>,
        /// The cause.
        reason: String,
    },
}

/// The result of a command that must not run twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum OnceRun {
    /// It began and has not ended: the result is unknown.
    Open {
        /// Revision of the plan.
        revision: Revision,
    },
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed {
        /// Revision of the plan.
        revision: Revision,
        /// The cause.
        message: String,
    },
}

impl Current {
    fn new(plan: PlanId) -> Self {
        Self {
            plan,
            done: BTreeSet::new(),
            tries: BTreeMap::new(),
            stays: BTreeSet::new(),
            last: None,
            outputs: Vec::new(),
            end: None,
        }
    }
}

/// An attempt that has begun and not ended.
#[derive(Clone, Copy, Debug)]
pub struct OpenAttempt<'a> {
    plan: PlanId,
    attempt: &'a Attempt,
}

impl OpenAttempt<'_> {
    /// Whether it is an attempt of this step.
    pub fn is_at(&self, step: &StepName) -> bool {
        self.attempt.step == *step
    }

    /// The key of its command with these inputs.
    pub fn key(&self, inputs: Digest) -> CommandKey {
        let (step, attempt) = (self.attempt.step.clone(), self.attempt.number);
        CommandKey::Step { plan: self.plan, step, inputs, attempt }
    }
}

impl History {
    /// The attempt that has begun and not ended. The engine reads it only between two decisions, so the attempt was
    /// interrupted, and its command may still run.
    pub fn open_attempt(&self) -> Option<OpenAttempt<'_>> {
        let Current { plan, last, .. } = self.current.as_ref()?;
        let attempt = last.as_ref().filter(|last| last.finished.is_none())?;
        Some(OpenAttempt { plan: *plan, attempt })
    }

    /// The result of a command that must not run twice with the same inputs.
    pub fn once(&self, step: &StepName, inputs: &Digest) -> Option<&OnceRun> {
        self.once.get(step)?.get(inputs)
    }

    /// Adds a line. Every line is accepted at any time: invalid sequences are not written.
    pub fn record(&mut self, entry: Entry) {
        match entry {
            Entry::Snapshot(history) => *self = *history,
            Entry::Accepted { plan, machine, epoch } => {
                self.machine = Some(machine);
                self.epoch = self.epoch.max(epoch);
                self.current = Some(Current::new(plan));
            }
            Entry::Follows { epoch } => self.epoch = self.epoch.max(epoch),
            Entry::Trusts { key } => self.plan_key = Some(key),
            Entry::Began { step, inputs, once, undo, at } => {
                if let Some((undo, timeout)) = undo {
                    self.ledger.owe(step.clone(), undo, timeout);
                }
                self.began(step, inputs, once, at);
            }
            Entry::Ended { step, inputs, outcome, at } => self.ended(step, inputs, outcome, at),
            Entry::Took(holding) => self.ledger.take(holding),
            Entry::Released { path } => {
                if let Some(Holding { after: After::Unit { name, .. }, .. }) = self.ledger.holding(&path) {
                    self.units.remove(name);
                }
                self.ledger.release(&path);
            }
            Entry::Starting { unit, inputs, instead_of, repair } => {
                self.units.insert(unit, Start { inputs, instead_of, repair });
            }
            Entry::Undone { step, undo, keeps } => {
                self.ledger.undone(&step, &undo);
                self.keeps.extend(keeps);
            }
            Entry::Stayed { path } => {
                if let Some(current) = &mut self.current {
                    current.stays.insert(path);
                }
            }
            Entry::Finished { plan } => {
                self.applied = Some(plan);
                self.end(plan, End::Applied);
            }
            Entry::Stopped { plan, step, reason } => self.end(plan, End::Failed { step, reason }),
            Entry::ResetBegan => self.resetting = true,
            Entry::ResetEnded => *self = Self::default(),
        }
    }

    fn began(&mut self, step: StepName, inputs: Digest, once: bool, at: Timestamp) {
        // Even if these inputs succeeded before: from now on the machine may be in another state.
        self.succeeded.remove(&step);
        let Some(current) = &mut self.current else { return };
        let tries = current.tries.entry(step.clone()).or_default();
        tries.interrupted = tries.interrupted.saturating_add(tries.open.into());
        tries.open = true;
        current.last = Some(Attempt {
            step: step.clone(),
            number: tries.next(),
            started: Some(at),
            finished: None,
            outcome: Outcome { failure: None, exit_code: None, output: StepOutput::default() },
        });
        if once {
            let revision = current.plan.revision();
            self.once.entry(step).or_default().insert(inputs, OnceRun::Open { revision });
        }
    }

    fn ended(&mut self, step: StepName, inputs: Digest, outcome: Outcome, at: Timestamp) {
        let Some(current) = &mut self.current else { return };
        let tries = current.tries.entry(step.clone()).or_default();
        tries.open = false;
        let (started, number) = match &current.last {
            Some(last) if last.step == step && last.finished.is_none() => (last.started, last.number),
            _ => (None, tries.next()),
        };
        let failure = outcome.failure.clone();
        outputs::record(&mut current.outputs, &step, &outcome, at);
        current.last = Some(Attempt { step: step.clone(), number, started, finished: Some(at), outcome });
        let revision = current.plan.revision();
        let once = self.once.get_mut(&step).and_then(|runs| runs.get_mut(&inputs));
        match failure {
            None => {
                current.done.insert(step.clone());
                if let Some(run) = once {
                    *run = OnceRun::Succeeded;
                }
                self.succeeded.insert(step, inputs);
            }
            Some(failure) => {
                match once {
                    Some(run) if failure.ran => {
                        *run = OnceRun::Failed { revision, message: failure.message.clone() };
                    }
                    // It was not begun after all. What an earlier plan may have done stays done.
                    Some(run) if *run == (OnceRun::Open { revision }) => {
                        self.once.entry(step).or_default().remove(&inputs);
                    }
                    _ => {}
                }
                let count = if failure.is_full { &mut tries.full } else { &mut tries.failed };
                *count = count.saturating_add(1);
                tries.failure = Some(failure);
                tries.at = Some(at);
            }
        }
    }

    fn end(&mut self, plan: PlanId, end: End) {
        if let Some(current) = &mut self.current
            && current.plan == plan
        {
            current.end = Some(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_attempts_do_not_overflow() {
        let tries = |failed, interrupted| Tries { failed, interrupted, ..Tries::default() };
        assert_eq!(tries(2, 1).next(), 4);
        assert_eq!(tries(u32::MAX, u32::MAX).next(), u32::MAX);
    }
}
