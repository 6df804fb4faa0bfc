//! Commands that an earlier process of the agent has started: the engine finds them, and waits for them or ends them,
//! before anything else.

use capstan_plan::{OpenGates, Progress, VerifiedPlan};
use jiff::SignedDuration;

use super::{Advance, Engine, EngineError, StepError};
use crate::clock::Clock;
use crate::decide::Decision;
use crate::ledger::{After, Holding};
use crate::machine::{CommandKey, Invocation, Machine, MachineError, Ran, Resumed};
use crate::redact::Redactor;
use crate::report;
use crate::running::{CommandFate, fate};
use crate::store::Store;

/// Pause before commands are listed again, if they could not be listed or ended.
const AGAIN: SignedDuration = SignedDuration::from_secs(5);

impl<M: Machine, S: Store, C: Clock> Engine<M, S, C> {
    /// Deals with commands that are left from an interrupted attempt. Returns the outcome if nothing else is done in this call.
    pub(super) async fn resolve_commands(
        &mut self,
        plan: &VerifiedPlan,
        gates: &OpenGates,
        decision: &Decision,
        on: &mut (impl FnMut(&Progress) + Send),
    ) -> Result<Option<Advance>, EngineError> {
        let is_needed = match decision {
            Decision::Refuse(_) | Decision::Rest(_) => false,
            // Before a plan begins nothing of another one runs; when it ends, nothing is kept of what was journaled.
            Decision::Accept | Decision::Finish | Decision::Stop { .. } | Decision::Cancel { .. } => true,
            _ => self.history().open_attempt().is_some(),
        };
        if !is_needed {
            return Ok(None);
        }
        match self.resolve_each_command(plan, gates, on).await {
            Ok(false) => Ok(None),
            Ok(true) => {
                on(&report::progress(plan, self.history()));
                Ok(Some(Advance::Moved))
            }
            Err(StepError::Journal(error)) => Err(error.into()),
            // Something may run: nothing else is started beside it.
            Err(StepError::Machine(error)) => {
                let mut progress = report::progress(plan, self.history());
                let message = format!("a command of an earlier attempt may still run: {error}");
                progress.message = Some(Redactor::of(plan.plan()).text(&message));
                on(&progress);
                let now = self.clock.now();
                Ok(Some(Advance::Wait(now.checked_add(AGAIN).unwrap_or(now))))
            }
        }
    }

    /// Whether something was recorded, so that the next decision may differ.
    async fn resolve_each_command(
        &mut self,
        plan: &VerifiedPlan,
        gates: &OpenGates,
        on: &mut (impl FnMut(&Progress) + Send),
    ) -> Result<bool, StepError> {
        for key in self.machine.commands().await? {
            match fate(&key, plan, gates, self.history()) {
                CommandFate::Cancel => {
                    self.cancel_left(plan, &key).await?;
                    return Ok(true);
                }
                CommandFate::Leave => {}
                CommandFate::Dismiss => self.machine.dismiss(&key).await?,
                CommandFate::TakeOver { step } => {
                    on(&report::progress(plan, self.history()));
                    if self.take_over(plan, step, &key).await? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// Ends the commands of steps, and periodic ones, before the effects of the plan are reverted.
    pub(super) async fn dismiss_steps(&self) -> Result<(), MachineError> {
        for key in self.machine.commands().await? {
            if matches!(key, CommandKey::Step { .. } | CommandKey::Periodic { .. }) {
                self.machine.dismiss(&key).await?;
            }
        }
        Ok(())
    }

    /// Ends a periodic command that an earlier process of the agent has left running. One that cannot be ended now is ended
    /// before the next command is started, and before the next plan is accepted.
    pub(crate) async fn dismiss_periodic(&self) {
        for key in self.machine.commands().await.unwrap_or_default() {
            if matches!(key, CommandKey::Periodic { .. }) {
                let _ = self.machine.dismiss(&key).await;
            }
        }
    }

    /// Removes the records of all commands after a reset.
    pub(super) async fn dismiss_all(&self) -> Result<(), MachineError> {
        for key in self.machine.commands().await? {
            self.machine.dismiss(&key).await?;
        }
        Ok(())
    }

    /// Runs a command that may run twice, or takes over the one that an earlier process has started.
    pub(super) async fn run_or_resume(
        &self,
        key: &CommandKey,
        invocation: Invocation<'_>,
    ) -> Result<Ran, MachineError> {
        match self.machine.resume(key).await? {
            Resumed::Ended(ran) => Ok(ran),
            Resumed::NotStarted(error) => Err(error),
            Resumed::Nothing => self.machine.run(Invocation { key: Some(key), ..invocation }).await,
        }
    }

    /// Removes the record of the stop command of a unit whose removal is recorded.
    pub(super) async fn forget_stop(&self, holding: &Holding) {
        if let After::Unit { name, stop: Some(stop), .. } = &holding.after {
            // What stays by mistake is removed before the next command is started.
            let _ = self.machine.dismiss(&CommandKey::stop(name, stop)).await;
        }
    }
}
