//! One attempt at one step.

use capstan_plan::{Action, Command, Progress, Revision, Step, VerifiedPlan};
use std::time::Duration;

use super::{Engine, EngineError, Trouble};
use crate::clock::Clock;
use crate::decide::must_run_once;
use crate::journal::{Class, Entry, Failure, JournalError, Outcome};
use crate::machine::{Exit, Found, Invocation, Machine, MachineError, Ran};
use crate::probes::ask;
use crate::redact::Redactor;
use crate::report;
use crate::store::Store;

/// What a command's guard says.
enum Guard {
    Done,
    NotDone,
    Unclear(Outcome),
}

impl<M: Machine, S: Store, C: Clock> Engine<M, S, C> {
    /// Tries a step: asks its guard, writes down that it begins, does it, writes down what came of it.
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
                Some((undo.clone(), step.timeout_seconds))
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
            Guard::Done => Outcome::success(),
            Guard::Unclear(outcome) => outcome,
            Guard::NotDone => self.perform(plan, step, &redactor).await?,
        };
        self.end(plan, step, outcome, &redactor).await
    }

    /// A command that must not be run twice began in some plan and never ended. If its guard does not say that
    /// it is done, nobody knows whether it had its effect.
    pub(super) async fn settle(
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
        let (step, inputs) = (step.name.clone(), plan.inputs(step));
        Ok(self.journal.append(Entry::Ended { step, inputs, outcome, at: self.clock.now() }).await?)
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
        match self.machine.run(Invocation { argv, env: &command.env, timeout: timeout(step) }).await {
            Ok(Ran { exit: Exit::Code(0), .. }) => Guard::Done,
            Ok(Ran { exit: Exit::Code(_), .. }) => Guard::NotDone,
            Ok(ran) => {
                let message = format!("the guard `unless` {}", report::ending(ran.exit));
                Guard::Unclear(Outcome::failure(Class::Transient, message))
            }
            Err(error) => Guard::Unclear(failed(&error, "the guard `unless` was not started: ")),
        }
    }

    async fn perform(
        &mut self,
        plan: &VerifiedPlan,
        step: &Step,
        redactor: &Redactor,
    ) -> Result<Outcome, JournalError> {
        let written = match &step.action {
            Action::File(file) => self.put_file(file).await,
            Action::Directory(directory) => self.put_directory(directory).await,
            Action::Artifact(artifact) => self.put_artifact(artifact, timeout(step)).await,
            Action::Unit(unit) => {
                let run = self.run_unit(unit, plan.inputs(step), timeout(step), redactor).await;
                match run {
                    Ok(outcome) => return Ok(outcome),
                    Err(trouble) => Err(trouble),
                }
            }
            // Whether it is open is decided before anything is done.
            Action::Gate(_) => Ok(()),
            Action::Command(command) => return Ok(self.command(command, timeout(step), redactor).await),
            Action::Check(check) => {
                let answer = ask(&self.machine, &check.target, timeout(step)).await;
                return Ok(match answer {
                    Ok(answer) => answer.outcome(redactor),
                    Err(error) => failed(&error, ""),
                });
            }
        };
        match written {
            Ok(()) => Ok(Outcome::success()),
            Err(Trouble::Machine(error)) => Ok(failed(&error, "")),
            Err(Trouble::Journal(error)) => Err(error),
        }
    }

    async fn command(&self, command: &Command, timeout: Duration, redactor: &Redactor) -> Outcome {
        let invocation = Invocation { argv: &command.argv, env: &command.env, timeout };
        match self.machine.run(invocation).await {
            Ok(ran) => report::outcome(&ran, redactor),
            Err(error) => failed(&error, ""),
        }
    }
}

fn timeout(step: &Step) -> Duration {
    Duration::from_secs(step.timeout_seconds.into())
}

/// Something on the machine that failed before any command was started.
fn failed(error: &MachineError, before: &str) -> Outcome {
    let class = if error.is_transient() { Class::Transient } else { Class::Permanent };
    Outcome::failure(class, format!("{before}{error}"))
}
