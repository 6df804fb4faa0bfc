//! Carries out decisions, one at a time, and records each in the journal before and after.
//!
//! A future that is dropped has the same effect as a crash at that point: the next call continues from the journal. If
//! the machine supervises commands, a running command continues, and the next call waits for it. If a write of the
//! journal was interrupted, its content is unknown, and the next call fails until it is opened again
//! ([`Engine::into_parts`], [`Journal::open`]). A caller that only wants to check for a newer plan uses
//! [`Engine::advance`] and drops nothing.

mod artifact;
mod attempt;
mod cancel;
mod commands;
mod files;
mod look;
mod patrol;
mod remember;
mod reset;
mod unit;
mod upgrade;

pub use reset::{Leftover, Reset};
pub(crate) use unit::systemctl;
pub use upgrade::Restart;
pub(crate) use upgrade::understood;

use capstan_plan::{
    Action, Digest, Epoch, MachinePath, OpenGates, Phase, PlanId, Progress, PublicKey, UnitName, VerifiedPlan,
};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::decide::{Decision, decide};
use crate::drift::{Findings, Sights, WallClock};
use crate::journal::{Entry, History, Journal, JournalError, Outcome};
use crate::machine::{Machine, MachineError};
use crate::redact::Redactor;
use crate::report;
use crate::store::Store;

/// Why the engine stops: it must not do what it cannot record. The journal must be opened again.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct EngineError(#[from] JournalError);

/// An error inside a step: of the machine, which fails the step, or of the journal, which stops the engine.
enum StepError {
    Machine(MachineError),
    Journal(JournalError),
}

impl From<MachineError> for StepError {
    fn from(error: MachineError) -> Self {
        Self::Machine(error)
    }
}

impl From<JournalError> for StepError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

/// The result of one decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advance {
    /// An action was executed; there are more.
    Moved,
    /// The next action is due at this time.
    Wait(Timestamp),
    /// The plan waits at a closed gate.
    Gate(Progress),
    /// The plan has ended.
    Rest(Progress),
}

/// Applies plans to one machine.
#[derive(Debug)]
pub struct Engine<M, S, C> {
    machine: M,
    journal: Journal<S>,
    clock: C,
    protected: Vec<MachinePath>,
    /// Results of checks of steps that the current plan would skip.
    sights: Sights,
    known: look::Known,
    findings: Findings,
    wall_clock: WallClock,
    /// Invocations of units that were started while all files they read were as planned.
    good_runs: BTreeMap<UnitName, String>,
    interval: Duration,
    rounds: u32,
    patrolled: Duration,
    next_patrol: Duration,
    /// Digest of the plan on the disk.
    remembered: Option<Digest>,
    /// How the program of the agent is replaced; none if it is not.
    replacement: Option<upgrade::Replacement>,
    /// Says that a plan is cancelled while its command runs.
    cancelled: Option<watch::Receiver<Option<PlanId>>>,
}

impl<M: Machine, S: Store, C: Clock> Engine<M, S, C> {
    /// An engine for this machine that continues from the journal.
    pub fn new(machine: M, journal: Journal<S>, clock: C) -> Self {
        // Soon after the start: what was done while the agent was away is not known.
        let began = clock.elapsed();
        Self {
            machine,
            journal,
            clock,
            protected: Vec::new(),
            sights: Sights::default(),
            known: look::Known::default(),
            findings: Findings::default(),
            wall_clock: WallClock::default(),
            good_runs: BTreeMap::new(),
            interval: patrol::PATROL,
            rounds: 0,
            patrolled: began,
            next_patrol: began + patrol::AFTER_START,
            remembered: None,
            replacement: None,
            cancelled: None,
        }
    }

    /// Rejects plans that write to this folder of the agent.
    #[must_use]
    pub fn protecting(mut self, folder: MachinePath) -> Self {
        self.protected.push(folder);
        self
    }

    /// The state that follows from the journal.
    pub const fn history(&self) -> &History {
        self.journal.history()
    }

    /// The index of the next step.
    pub fn next_step(&self, plan: &VerifiedPlan, gates: &OpenGates) -> Option<usize> {
        match decide(plan, gates, self.history(), &self.sights, &self.protected, self.clock.now()) {
            Decision::Try { step } => Some(step),
            _ => None,
        }
    }

    /// The machine.
    pub const fn machine(&self) -> &M {
        &self.machine
    }

    /// The clock.
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    /// Returns machine and store.
    pub fn into_parts(self) -> (M, S) {
        (self.machine, self.journal.into_store())
    }

    /// Applies a plan to its end or to a closed gate, and returns its progress. Reports every change on the way.
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
                Advance::Moved => {}
                Advance::Wait(until) => self.clock.sleep_until(until).await,
                Advance::Gate(progress) | Advance::Rest(progress) => return Ok(progress),
            }
        }
    }

    /// Executes the next decision: at most one step. For callers that look for a newer plan in between.
    ///
    /// # Errors
    /// If the journal fails.
    pub async fn advance(
        &mut self,
        plan: &VerifiedPlan,
        gates: &OpenGates,
        on: &mut (impl FnMut(&Progress) + Send),
    ) -> Result<Advance, EngineError> {
        self.journal.tidy().await?;
        let decision = decide(plan, gates, self.history(), &self.sights, &self.protected, self.clock.now());
        if let Some(advance) = self.resolve_commands(plan, gates, &decision, on).await? {
            return Ok(advance);
        }
        match decision {
            Decision::Refuse(refusal) => {
                let progress =
                    Progress::refused(plan.id(), Redactor::of(plan.plan()).text(&refusal.to_string()));
                on(&progress);
                return Ok(Advance::Rest(progress));
            }
            Decision::Rest(_) => {
                let progress = report::progress(plan, self.history());
                debug_assert!(matches!(progress.phase, Phase::Applied | Phase::Failed));
                on(&progress);
                return Ok(Advance::Rest(progress));
            }
            Decision::Wait { until, .. } => return Ok(Advance::Wait(until)),
            Decision::Await { step } => {
                let progress = report::waiting(plan, step);
                on(&progress);
                return Ok(Advance::Gate(progress));
            }
            Decision::Pass { step } => self.pass(plan, step).await?,
            Decision::Accept => self.accept(plan).await?,
            Decision::GiveBack(path) => self.give_back(plan, &path).await?,
            Decision::Look { step } => self.look_before(plan, step).await?,
            Decision::Try { step } => self.attempt(plan, step, on).await?,
            Decision::ResolveAttempt { step, revision } => self.resolve_attempt(plan, step, revision).await?,
            Decision::Stop { step, reason } => {
                let step = Some(plan.plan().steps[step].name.clone());
                self.journal.append(Entry::Stopped { plan: plan.id(), step, reason }).await?;
            }
            Decision::Cancel { step } => self.cancel(plan, step).await?,
            Decision::Finish => self.finish(plan).await?,
        }
        on(&report::progress(plan, self.history()));
        Ok(Advance::Moved)
    }

    /// Rejects plans of earlier epochs from now on.
    ///
    /// # Errors
    /// If the journal fails.
    pub async fn follow(&mut self, epoch: Epoch) -> Result<(), EngineError> {
        if self.history().epoch < epoch {
            self.journal.append(Entry::Follows { epoch }).await?;
        }
        Ok(())
    }

    /// Verifies plans with this key from now on, and no longer with the one before.
    ///
    /// # Errors
    /// If the journal fails.
    pub async fn trust(&mut self, key: PublicKey) -> Result<(), EngineError> {
        Ok(self.journal.append(Entry::Trusts { key }).await?)
    }

    async fn accept(&mut self, plan: &VerifiedPlan) -> Result<(), EngineError> {
        let entry = Entry::Accepted {
            plan: plan.id(),
            machine: plan.plan().machine.clone(),
            epoch: plan.plan().epoch,
        };
        self.findings.keep(plan.plan());
        self.journal.append(entry).await?;
        // Not before: an agent that was put back must be able to read the journal, and only one that is there to stay accepts a
        // plan.
        Ok(self.journal.hide_secrets().await?)
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
        self.patrol_soon();
        Ok(self.journal.append(Entry::Finished { plan: plan.id() }).await?)
    }

    /// Restores a path that is no longer in the plan.
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
