//! What is told of a plan: made from the journal alone, so that it is the same after a crash.

use capstan_plan::{
    Facts, Phase, ProbeResult, Progress, Report, Standing, StepName, StepOutput, StepProgress, VerifiedPlan,
};
use jiff::Timestamp;

use crate::journal::{Attempt, Class, Current, End, Failure, History, Outcome};
use crate::machine::{Exit, Ran};
use crate::redact::Redactor;

/// How a plan goes that has been accepted.
pub fn progress(plan: &VerifiedPlan, history: &History) -> Progress {
    let Some(current) = history.current.as_ref().filter(|current| current.plan == plan.id()) else {
        return Progress::new(plan.id(), Phase::Applying);
    };
    let last = current.last.as_ref();
    let (phase, at, message) = match &current.end {
        Some(End::Applied) => (Phase::Applied, None, None),
        Some(End::Failed { step, reason }) => {
            let told = step.as_ref().map_or_else(|| reason.clone(), |step| format!("step {step}: {reason}"));
            (Phase::Failed, step.as_ref(), Some(told))
        }
        None => (Phase::Applying, None, last.and_then(|last| why_again(last, current))),
    };
    // What an attempt printed is told with its own step only.
    let last = last.filter(|last| at.is_none_or(|at| *at == last.step));
    let step = at.or_else(|| last.map(|last| &last.step));
    Progress {
        plan: plan.id(),
        phase,
        step: step.and_then(|step| place(plan, step, last)),
        message,
        output: last.map(|last| last.outcome.output.clone()).unwrap_or_default(),
        attempts: last.map(|last| last.number),
    }
}

/// A plan that waits at a gate. Said anew each time it is looked at: it is not in the journal.
pub fn waiting(plan: &VerifiedPlan, step: usize) -> Progress {
    let name = &plan.plan().steps[step].name;
    Progress {
        step: place(plan, name, None),
        message: Some(format!(
            "step {name}: the gate is closed; the manager opens it when the plan may go on"
        )),
        ..Progress::new(plan.id(), Phase::Waiting)
    }
}

/// A failed attempt of a step that will be tried again.
fn why_again(last: &Attempt, current: &Current) -> Option<String> {
    let failure = last.outcome.failure.as_ref().filter(|_| !current.done.contains(&last.step))?;
    Some(format!("step {}: attempt {} failed: {}", last.step, last.number, failure.message))
}

fn place(plan: &VerifiedPlan, name: &StepName, last: Option<&Attempt>) -> Option<StepProgress> {
    let steps = &plan.plan().steps;
    let index = steps.iter().position(|step| step.name == *name)?;
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Some(StepProgress {
        name: name.clone(),
        index: number(index + 1),
        total: number(steps.len()),
        exit_code: last.and_then(|last| last.outcome.exit_code),
        started: last.and_then(|last| last.started),
        finished: last.and_then(|last| last.finished),
    })
}

/// What an agent says before it has seen any plan: that it is there.
pub fn hello() -> Report {
    Report { agent_version: Some(env!("CARGO_PKG_VERSION").to_owned()), ..Report::default() }
}

/// The whole report.
pub fn report(
    standing: Standing,
    history: &History,
    probes: Vec<ProbeResult>,
    facts: Facts,
    now: Timestamp,
) -> Report {
    Report {
        standing,
        applied: history.applied,
        probes,
        facts: Some(facts),
        last_updated: Some(now),
        ..hello()
    }
}

/// What came of a command that was started.
pub(crate) fn outcome(ran: &Ran, redactor: &Redactor) -> Outcome {
    let failure = (ran.exit != Exit::Code(0)).then(|| Failure {
        class: Class::Transient,
        ran: true,
        message: format!("the command {}", ending(ran.exit)),
    });
    let exit_code = match ran.exit {
        Exit::Code(code) => Some(code),
        Exit::Signal(_) | Exit::TimedOut => None,
    };
    Outcome { failure, exit_code, output: redactor.output(ran) }
}

/// How a program ended, as the end of a sentence.
pub(crate) fn ending(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exited with {code}"),
        Exit::Signal(signal) => format!("was ended by signal {signal}"),
        Exit::TimedOut => "took too long and was ended".to_owned(),
    }
}

/// The last line that a program printed, from standard error if there is one.
pub(crate) fn last_words(output: &StepOutput) -> Option<String> {
    let texts = [&output.stderr, &output.stdout].into_iter().flatten();
    texts
        .filter_map(|excerpt| excerpt.tail.as_ref().or(excerpt.head.as_ref()))
        .find_map(|text| text.lines().rev().map(str::trim).find(|line| !line.is_empty()))
        .map(|line| line.chars().take(256).collect())
}
