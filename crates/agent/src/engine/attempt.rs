//! One attempt at one step.

use capstan_plan::{Action, Command, Progress, Revision, Step, StepOutput, VerifiedPlan};
use std::time::Duration;

use super::{Engine, EngineError, StepError};
use crate::clock::Clock;
use crate::decide::must_run_once;
use crate::journal::{Class, Entry, Failure, JournalError, Outcome};
use crate::machine::{CommandKey, Exit, Found, Invocation, Machine, MachineError, Ran, Resumed};
use crate::probes::ask;
use crate::redact::Redactor;
use crate::report;
use crate::store::Store;

/// The result of a command's guard.
enum Guard {
    Done,
    NotDone,
    Unclear(Outcome),
}

impl<M: Machine, S: Store, C: Clock> Engine<M, S, C> {
    /// Tries a step: runs its guard, records the beginning in the journal, carries out the step, and records the
    /// result.
    pub(super) async fn attempt(
        &mut self,
        plan: &VerifiedPlan,
        index: usize,
        on: &mut (impl FnMut(&Progress) + Send),
    ) -> Result<(), EngineError> {
        let step = &plan.plan().steps[index];
        // Before the beginning is written down: from then on a crash may mean that the command has run.
        let guard = self.guard(step).await;
        let runs = matches!(guard, Guard::NotDone);
        let undo = match &step.action {
            Action::Command(Command { undo: Some(undo), .. }) if runs => {
                let owed = self.journal.keep_secrets(undo, &plan.plan().secrets()).await?;
                Some((owed, step.timeout_seconds))
            }
            _ => None,
        };
        let began = Entry::Began {
            step: step.name.clone(),
            inputs: plan.inputs(step),
            once: runs && must_run_once(step),
            undo,
            at: self.clock.now(),
        };
        self.journal.append(began).await?;
        on(&report::progress(plan, self.history()));
        let redactor = Redactor::of(plan.plan());
        let outcome = match guard {
            Guard::Done => Some(Outcome::success()),
            Guard::Unclear(outcome) => Some(outcome),
            Guard::NotDone => self.perform(plan, step, &redactor).await?,
        };
        match outcome {
            Some(outcome) => self.end(plan, step, outcome, &redactor).await,
            // It is as if the agent had been interrupted: the step stays open, and the next decision is about that.
            None => Ok(()),
        }
    }

    /// Takes over a command that an earlier process of the agent has started: waits for it, and records its result.
    /// Returns whether there was one.
    pub(super) async fn take_over(
        &mut self,
        plan: &VerifiedPlan,
        index: usize,
        key: &CommandKey,
    ) -> Result<bool, StepError> {
        let step = &plan.plan().steps[index];
        let redactor = Redactor::of(plan.plan());
        let resumed = tokio::select! {
            biased;
            resumed = self.machine.resume(key) => Some(resumed?),
            () = self.until_cancelled(plan.id()) => None,
        };
        let mut outcome = match resumed {
            Some(Resumed::Nothing) => return Ok(false),
            Some(Resumed::Ended(ran)) => report::outcome(&ran, &redactor),
            Some(Resumed::NotStarted(error)) => failed(&error, ""),
            None => match self.end_cancelled(Some(key), &redactor).await {
                Some(outcome) => outcome,
                // It is found again.
                None => return Ok(true),
            },
        };
        if matches!(key, CommandKey::Step { plan: of, .. } if *of != plan.id()) {
            // It may have printed secrets of another plan, which are not known any more.
            outcome.output = StepOutput::default();
        }
        self.end(plan, step, outcome, &redactor)
            .await
            .map_err(|EngineError(error)| StepError::Journal(error))?;
        Ok(true)
    }

    /// Resolves a command that must not run twice and that began in some plan without ending. If its guard does not
    /// report that it is done, its result is unknown.
    pub(super) async fn resolve_attempt(
        &mut self,
        plan: &VerifiedPlan,
        index: usize,
        revision: Revision,
    ) -> Result<(), EngineError> {
        let step = &plan.plan().steps[index];
        let outcome = match self.guard(step).await {
            Guard::Done => Outcome::success(),
            Guard::NotDone | Guard::Unclear(_) => Outcome {
                failure: Some(Failure {
                    class: Class::Permanent,
                    ran: true,
                    is_full: false,
                    message: format!(
                        "it was interrupted in revision {revision} and may have had its effect, and its guard does \
                         not say that it is done; it is not run twice, change its inputs to run it again"
                    ),
                }),
                ..Outcome::default()
            },
        };
        self.end(plan, step, outcome, &Redactor::of(plan.plan())).await
    }

    async fn end(
        &mut self,
        plan: &VerifiedPlan,
        step: &Step,
        mut outcome: Outcome,
        redactor: &Redactor,
    ) -> Result<(), EngineError> {
        if let Some(failure) = &mut outcome.failure {
            failure.message = redactor.text(&failure.message);
        }
        let key = self.command_key(plan, step);
        if outcome.failure.is_none() {
            self.findings.repaired(&step.name, self.clock.now());
        }
        let (step, inputs) = (step.name.clone(), plan.inputs(step));
        self.journal.append(Entry::Ended { step, inputs, outcome, at: self.clock.now() }).await?;
        if let Some(key) = key {
            // What stays by mistake is removed before the next command is started.
            let _ = self.machine.dismiss(&key).await;
        }
        Ok(())
    }

    async fn guard(&self, step: &Step) -> Guard {
        let Action::Command(command) = &step.action else { return Guard::NotDone };
        if let Some(path) = &command.creates {
            match self.machine.inspect(path).await {
                Ok(Found::Nothing) => {}
                Ok(_) => return Guard::Done,
                Err(error) => {
                    return Guard::Unclear(failed(&error, "the guard `creates` cannot be looked at: "));
                }
            }
        }
        let Some(argv) = &command.unless else { return Guard::NotDone };
        let invocation = Invocation { argv, env: &command.env, timeout: timeout(step), key: None };
        match self.machine.run(invocation).await {
            Ok(Ran { exit: Exit::Code(0), .. }) => Guard::Done,
            Ok(Ran { exit: Exit::Code(_), .. }) => Guard::NotDone,
            Ok(ran) => {
                let message = format!("the guard `unless` {}", report::ending(ran.exit));
                Guard::Unclear(Outcome::failure(Class::Transient, message))
            }
            Err(error) => Guard::Unclear(failed(&error, "the guard `unless` was not started: ")),
        }
    }

    /// Carries out the step. `None` if its command was interrupted.
    async fn perform(
        &mut self,
        plan: &VerifiedPlan,
        step: &Step,
        redactor: &Redactor,
    ) -> Result<Option<Outcome>, JournalError> {
        let written = match &step.action {
            Action::File(file) => self.put_file(file).await,
            Action::Directory(directory) => self.put_directory(directory).await,
            Action::Artifact(artifact) => self.put_artifact(artifact, timeout(step)).await,
            Action::Unit(unit) => {
                let run = self.run_unit(unit, plan.inputs(step), timeout(step), redactor).await;
                match run {
                    Ok(outcome) => return Ok(Some(outcome)),
                    Err(trouble) => Err(trouble),
                }
            }
            // Whether it is open is decided before anything is done.
            Action::Gate(_) => Ok(()),
            Action::Command(command) => return Ok(self.command(plan, step, command, redactor).await),
            Action::Check(check) => {
                let answer = ask(&self.machine, &check.target, timeout(step), self.clock.now()).await;
                return Ok(Some(match answer {
                    Ok(answer) => answer.outcome(redactor),
                    Err(error) => failed(&error, ""),
                }));
            }
        };
        match written {
            Ok(()) => Ok(Some(Outcome::success())),
            Err(StepError::Machine(error)) => Ok(Some(failed(&error, ""))),
            Err(StepError::Journal(error)) => Err(error),
        }
    }

    /// The key of the command of the open attempt at this step.
    fn command_key(&self, plan: &VerifiedPlan, step: &Step) -> Option<CommandKey> {
        let is_command = matches!(step.action, Action::Command(_));
        let attempt = self.history().open_attempt().filter(|open| is_command && open.is_at(&step.name))?;
        Some(attempt.key(plan.inputs(step)))
    }

    async fn command(
        &self,
        plan: &VerifiedPlan,
        step: &Step,
        command: &Command,
        redactor: &Redactor,
    ) -> Option<Outcome> {
        let key = self.command_key(plan, step);
        let (argv, env, timeout) = (&command.argv, &command.env, timeout(step));
        let ran = tokio::select! {
            biased;
            ran = self.machine.run(Invocation { argv, env, timeout, key: key.as_ref() }) => ran,
            () = self.until_cancelled(plan.id()) => {
                return self.end_cancelled(key.as_ref(), redactor).await;
            }
        };
        match ran {
            Ok(ran) => Some(report::outcome(&ran, redactor)),
            Err(MachineError::Lost) => None,
            Err(error) => Some(failed(&error, "")),
        }
    }
}

fn timeout(step: &Step) -> Duration {
    Duration::from_secs(step.timeout_seconds.into())
}

/// A failure of the machine before any command was started.
fn failed(error: &MachineError, before: &str) -> Outcome {
    let class = if error.is_transient() { Class::Transient } else { Class::Permanent };
    let mut outcome = Outcome::failure(class, format!("{before}{error}"));
    if let Some(failure) = &mut outcome.failure {
        failure.is_full = error.is_full();
    }
    outcome
}
