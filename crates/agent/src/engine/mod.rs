//! Carries out what was decided, one decision at a time, and writes it down before and after.
//!
//! A future that is dropped half-way is the same as a crash at that point: the next call goes on from what the journal
//! says. A command that runs then goes on if the machine can supervise it, and the next call waits for it. If the journal
//! was being written, its content is unknown, and the next call fails until it is opened again ([`Engine::into_parts`],
//! [`Journal::open`]). A caller that only wants to look for a newer plan uses [`Engine::advance`] and drops nothing.

mod artifact;
mod attempt;
mod commands;
mod files;
mod reset;
mod unit;

pub use reset::{Leftover, Reset};

use capstan_plan::{Action, Epoch, MachinePath, OpenGates, Phase, Progress, VerifiedPlan};
use jiff::Timestamp;

use crate::clock::Clock;
use crate::decide::{Decision, decide};
use crate::journal::{Entry, History, Journal, JournalError, Outcome};
use crate::machine::{Machine, MachineError};
use crate::redact::Redactor;
use crate::report;
use crate::store::Store;

/// Why the engine cannot go on: what it cannot write down it must not do. The journal must be opened anew.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct EngineError(#[from] JournalError);

/// What goes wrong inside a step: on the machine, which makes the step fail, or in the journal, which ends all.
enum Trouble {
    Machine(MachineError),
    Journal(JournalError),
}

impl From<MachineError> for Trouble {
    fn from(error: MachineError) -> Self {
        Self::Machine(error)
    }
}

impl From<JournalError> for Trouble {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

/// What came of one decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Something was done; there is more.
    Moved,
    /// There is more, but not before then.
    Wait(Timestamp),
    /// There is more, but not before somebody opens a gate.
    Gate(Progress),
    /// There is nothing more to do for this plan.
    Rest(Progress),
}

/// Carries out plans on one machine.
#[derive(Debug)]
pub struct Engine<M, S, C> {
    machine: M,
    journal: Journal<S>,
    clock: C,
    protected: Vec<MachinePath>,
}

impl<M: Machine, S: Store, C: Clock> Engine<M, S, C> {
    /// An engine for this machine that goes on where the journal ends.
    pub const fn new(machine: M, journal: Journal<S>, clock: C) -> Self {
        Self { machine, journal, clock, protected: Vec::new() }
    }

    /// Refuses plans that would write in this folder: the agent's own.
    #[must_use]
    pub fn protecting(mut self, folder: MachinePath) -> Self {
        self.protected.push(folder);
        self
    }

    /// What has been done so far.
    pub const fn history(&self) -> &History {
        self.journal.history()
    }

    /// The step that would be tried next, counted from 0.
    pub fn next_step(&self, plan: &VerifiedPlan, gates: &OpenGates) -> Option<usize> {
        match decide(plan, gates, self.history(), &self.protected, self.clock.now()) {
            Decision::Try { step } => Some(step),
            _ => None,
        }
    }

    /// The machine it works on.
    pub const fn machine(&self) -> &M {
        &self.machine
    }

    /// The clock it goes by.
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    /// Gives machine and store back.
    pub fn into_parts(self) -> (M, S) {
        (self.machine, self.journal.into_store())
    }

    /// Carries a plan out to its end or to a gate that is closed, and returns how it stands then. Tells of every
    /// change on the way.
    ///
    /// # Errors
    /// If the journal fails.
    pub async fn apply(
        &mut self,
        plan: &VerifiedPlan,
        gates: &OpenGates,
        mut on: impl FnMut(&Progress) + Send,
    ) -> Result<Progress, EngineError> {
        loop {
            match self.advance(plan, gates, &mut on).await? {
                Turn::Moved => {}
                Turn::Wait(until) => self.clock.sleep_until(until).await,
                Turn::Gate(progress) | Turn::Rest(progress) => return Ok(progress),
            }
        }
    }

    /// Carries out the next decision: one step at most. For those who must look for a newer plan between two.
    ///
    /// # Errors
    /// If the journal fails.
    pub async fn advance(
        &mut self,
        plan: &VerifiedPlan,
        gates: &OpenGates,
        on: &mut (impl FnMut(&Progress) + Send),
    ) -> Result<Turn, EngineError> {
        self.journal.tidy().await?;
        let decision = decide(plan, gates, self.history(), &self.protected, self.clock.now());
        if let Some(turn) = self.settle_commands(plan, &decision, on).await? {
            return Ok(turn);
        }
        match decision {
            Decision::Refuse(refusal) => {
                let progress =
                    Progress::refused(plan.id(), Redactor::of(plan.plan()).text(&refusal.to_string()));
                on(&progress);
                return Ok(Turn::Rest(progress));
            }
            Decision::Rest(_) => {
                let progress = report::progress(plan, self.history());
                debug_assert!(matches!(progress.phase, Phase::Applied | Phase::Failed));
                on(&progress);
                return Ok(Turn::Rest(progress));
            }
            Decision::Wait { until, .. } => return Ok(Turn::Wait(until)),
            Decision::Await { step } => {
                let progress = report::waiting(plan, step);
                on(&progress);
                return Ok(Turn::Gate(progress));
            }
            Decision::Pass { step } => self.pass(plan, step).await?,
            Decision::Accept => self.accept(plan).await?,
            Decision::GiveBack(path) => self.give_back(plan, &path).await?,
            Decision::Try { step } => self.attempt(plan, step, on).await?,
            Decision::Settle { step, revision } => self.settle(plan, step, revision).await?,
            Decision::Stop { step, reason } => {
                let step = Some(plan.plan().steps[step].name.clone());
                self.journal.append(Entry::Stopped { plan: plan.id(), step, reason }).await?;
            }
            Decision::Finish => self.finish(plan).await?,
        }
        on(&report::progress(plan, self.history()));
        Ok(Turn::Moved)
    }

    /// From here on managers before this one are not obeyed.
    ///
    /// # Errors
    /// If the journal fails.
    pub async fn follow(&mut self, epoch: Epoch) -> Result<(), EngineError> {
        if self.history().epoch < epoch {
            self.journal.append(Entry::Follows { epoch }).await?;
        }
        Ok(())
    }

    async fn accept(&mut self, plan: &VerifiedPlan) -> Result<(), EngineError> {
        let entry = Entry::Accepted {
            plan: plan.id(),
            machine: plan.plan().machine.clone(),
            epoch: plan.plan().epoch,
        };
        Ok(self.journal.append(entry).await?)
    }

    async fn pass(&mut self, plan: &VerifiedPlan, step: usize) -> Result<(), EngineError> {
        let step = &plan.plan().steps[step];
        let (name, inputs, at) = (step.name.clone(), plan.inputs(step), self.clock.now());
        let began = Entry::Began { step: name.clone(), inputs, once: false, undo: None, at };
        self.journal.append(began).await?;
        Ok(self.journal.append(Entry::Ended { step: name, inputs, outcome: Outcome::success(), at }).await?)
    }

    async fn finish(&mut self, plan: &VerifiedPlan) -> Result<(), EngineError> {
        let fetched = plan.plan().steps.iter().filter_map(|step| match &step.action {
            Action::Artifact(artifact) => Some(artifact.sha256),
            _ => None,
        });
        // What stays by mistake takes up room and nothing else; the next plan tries again.
        let _ = self.machine.keep_fetched(&fetched.collect()).await;
        Ok(self.journal.append(Entry::Finished { plan: plan.id() }).await?)
    }

    /// A path that has left the plan leaves the machine.
    async fn give_back(&mut self, plan: &VerifiedPlan, path: &MachinePath) -> Result<(), EngineError> {
        let Some(holding) = self.history().ledger.holding(path).cloned() else { return Ok(()) };
        let entry = match self.restore(&holding).await {
            Ok(()) => Entry::Released { path: path.clone() },
            Err(MachineError::NotEmpty(_)) => Entry::Stayed { path: path.clone() },
            Err(error) => Entry::Stopped {
                plan: plan.id(),
                step: None,
                reason: Redactor::of(plan.plan())
                    .text(&format!("what an earlier plan put there cannot be taken back: {error}")),
            },
        };
        self.journal.append(entry).await?;
        self.forget_stop(&holding).await;
        Ok(self.journal.drop_surplus().await?)
    }
}
