//! Ends the running command of a plan that is cancelled, and the plan. What is not a command is finished first: a file is written as a
//! whole or not at all.

use capstan_plan::{PlanId, VerifiedPlan};
use tokio::sync::watch;

use super::{Engine, EngineError, StepError};
use crate::clock::Clock;
use crate::journal::{Class, Entry, Failure, Outcome};
use crate::machine::{CommandKey, Machine, Resumed};
use crate::redact::Redactor;
use crate::report;
use crate::store::Store;

impl<M: Machine, S: Store, C: Clock> Engine<M, S, C> {
    /// From now on, the running command of a plan is ended when this names the plan. Without it, a plan is cancelled between two
    /// steps only.
    pub fn heed(&mut self, cancelled: watch::Receiver<Option<PlanId>>) {
        self.cancelled = Some(cancelled);
    }

    /// Waits until this plan is cancelled.
    pub(super) async fn until_cancelled(&self, plan: PlanId) {
        if let Some(mut cancelled) = self.cancelled.clone()
            && cancelled.wait_for(|named| *named == Some(plan)).await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    /// Ends a command that was started for an open attempt. `None` if it may still run.
    pub(super) async fn end_cancelled(
        &self,
        key: Option<&CommandKey>,
        redactor: &Redactor,
    ) -> Option<Outcome> {
        let ended = match key {
            Some(key) => self.machine.cancel(key).await,
            // It has ended with its future.
            None => Ok(Resumed::Nothing),
        };
        ended.ok().map(|ended| cancelled(&ended, redactor))
    }

    /// Ends a command of an earlier process of the agent, or of an earlier plan, and records that.
    pub(super) async fn cancel_left(
        &mut self,
        plan: &VerifiedPlan,
        key: &CommandKey,
    ) -> Result<(), StepError> {
        let CommandKey::Step { plan: of, step, inputs, .. } = key else { return Ok(()) };
        let mut outcome = cancelled(&self.machine.cancel(key).await?, &Redactor::of(plan.plan()));
        if *of != plan.id() {
            // It may have printed secrets of another plan, which are not known any more.
            outcome.output = capstan_plan::StepOutput::default();
        }
        let (step, inputs, at) = (step.clone(), *inputs, self.clock.now());
        self.journal.append(Entry::Ended { step, inputs, outcome, at }).await?;
        // What stays by mistake is removed before the next command is started.
        let _ = self.machine.dismiss(key).await;
        Ok(())
    }

    /// Ends the plan. No command of it runs.
    pub(super) async fn cancel(&mut self, plan: &VerifiedPlan, step: usize) -> Result<(), EngineError> {
        let step = &plan.plan().steps[step];
        if self.history().open_attempt().is_some_and(|attempt| attempt.is_at(&step.name)) {
            // Its command was interrupted, and its result is not known.
            let outcome = cancelled(&Resumed::Nothing, &Redactor::default());
            let (name, inputs, at) = (step.name.clone(), plan.inputs(step), self.clock.now());
            self.journal.append(Entry::Ended { step: name, inputs, outcome, at }).await?;
        }
        let reason = "the plan was cancelled".to_owned();
        let step = Some(step.name.clone());
        Ok(self.journal.append(Entry::Stopped { plan: plan.id(), step, reason }).await?)
    }
}

/// The outcome of an attempt that was cancelled, with what its command has printed.
fn cancelled(ended: &Resumed, redactor: &Redactor) -> Outcome {
    let outcome = match ended {
        Resumed::Ended(ran) => report::outcome(ran, redactor),
        Resumed::Nothing | Resumed::NotStarted(_) => Outcome::default(),
    };
    let failure = Failure {
        class: Class::Permanent,
        ran: true,
        is_full: false,
        message: "its command was ended, because the plan was cancelled".to_owned(),
    };
    Outcome { failure: Some(failure), ..outcome }
}
