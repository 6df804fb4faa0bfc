//! The content of a report about a plan: made from the journal alone, so that it is the same after a crash.

use capstan_plan::{
    Facts, Ledger, LedgerBefore, LedgerItem, LedgerKind, Phase, ProbeResult, Progress, Report,
    ReportedCapabilities, Standing, StepName, StepOutput, StepProgress, StepTail, VerifiedPlan, limits,
};
use jiff::Timestamp;

use crate::engine::understood;
use crate::journal::{Attempt, Class, Current, End, Failure, History, Outcome};
use crate::ledger::{self, After, Before, Item};
use crate::machine::{Exit, Ran};
use crate::redact::Redactor;

/// The progress of an accepted plan.
pub fn progress(plan: &VerifiedPlan, history: &History) -> Progress {
    let Some(current) = history.current.as_ref().filter(|current| current.plan == plan.id()) else {
        return Progress::new(plan.id(), Phase::Applying);
    };
    let last = current.last.as_ref();
    let (phase, at, message) = match &current.end {
        Some(End::Applied) => (Phase::Applied, None, None),
        Some(End::Failed { step, reason }) => {
            let message =
                step.as_ref().map_or_else(|| reason.clone(), |step| format!("step {step}: {reason}"));
            (Phase::Failed, step.as_ref(), Some(message))
        }
        None => (Phase::Applying, None, last.and_then(|last| why_again(last, current))),
    };
    // What an attempt printed is reported with its own step only.
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

/// The progress of a plan that waits at a gate. It is not in the journal and is computed at each evaluation.
pub fn waiting(plan: &VerifiedPlan, step: usize) -> Progress {
    let name = &plan.plan().steps[step].name;
    Progress {
        step: place(plan, name, None),
        message: Some(format!(
            "step {name}: the gate is closed; the manager opens it when the plan may continue"
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

/// Version of the agent.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The report of an agent that has not seen a plan.
pub fn hello() -> Report {
    Report {
        agent_version: Some(VERSION.to_owned()),
        capabilities: Some(capabilities(false)),
        ..Report::default()
    }
}

/// What this agent understands. Not every agent can replace its program.
pub fn capabilities(replaces_itself: bool) -> ReportedCapabilities {
    ReportedCapabilities::of_this_version(VERSION, &understood(replaces_itself))
}

/// The complete report.
pub fn report(
    standing: Standing,
    history: &History,
    probes: Vec<ProbeResult>,
    facts: Facts,
    now: Timestamp,
) -> Report {
    Report {
        outputs: outputs(&standing, history),
        standing,
        applied: history.applied,
        probes,
        facts: Some(facts),
        ledger: ledger(&history.ledger),
        last_updated: Some(now),
        ..hello()
    }
}

/// What the steps of the plan have printed, except for the one whose output is reported in full.
fn outputs(standing: &Standing, history: &History) -> Vec<StepTail> {
    let Standing::Plan(progress) = standing else { return Vec::new() };
    let shown = progress.step.as_ref().filter(|_| !progress.output.is_empty()).map(|step| &step.name);
    let current = history.current.iter().filter(|current| current.plan == progress.plan);
    let outputs = current.flat_map(|current| &current.outputs);
    outputs.filter(|tail| Some(&tail.step) != shown).cloned().collect()
}

/// The ledger in a report: the newest items, which the last plan has added.
fn ledger(ledger: &ledger::Ledger) -> Option<Ledger> {
    let items: Vec<LedgerItem> = ledger.items().iter().rev().take(limits::LEDGER_ITEMS).map(item).collect();
    let total = u32::try_from(ledger.items().len()).unwrap_or(u32::MAX);
    (total > 0).then_some(Ledger { total, items })
}

fn item(item: &Item) -> LedgerItem {
    let holding = match item {
        Item::Command { step, .. } => {
            return LedgerItem { kind: LedgerKind::Command, name: step.to_string(), before: None };
        }
        Item::Path(holding) => holding,
    };
    let kind = match holding.after {
        After::File { .. } => LedgerKind::File,
        After::Directory { .. } => LedgerKind::Directory,
        After::Artifact { .. } => LedgerKind::Artifact,
        After::Unit { .. } => LedgerKind::Unit,
    };
    let before = match holding.before {
        Before::Nothing => LedgerBefore::Nothing,
        Before::File { .. } => LedgerBefore::File,
        Before::Directory { .. } => LedgerBefore::Directory,
    };
    LedgerItem { kind, name: holding.path.to_string(), before: Some(before) }
}

/// The result of a command that was started.
pub(crate) fn outcome(ran: &Ran, redactor: &Redactor) -> Outcome {
    let failure = (ran.exit != Exit::Code(0)).then(|| Failure {
        class: Class::Transient,
        ran: true,
        is_full: false,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Entry;
    use crate::ledger::{Holding, UNIT_FILE};
    use capstan_plan::Digest;

    fn took(path: &str, before: Before) -> Entry {
        let after = After::File { content: Digest::of(b"new"), metadata: UNIT_FILE };
        Entry::Took(Holding { path: path.parse().expect("a path"), before, after })
    }

    #[test]
    fn the_newest_items_of_the_ledger_are_reported() {
        let mut history = History::default();
        assert_eq!(ledger(&history.ledger), None);
        for number in 0..100 {
            history.record(took(&format!("/opt/{number}"), Before::Nothing));
        }
        let before = Before::File { content: Digest::of(b"old"), metadata: UNIT_FILE };
        history.record(took("/etc/hosts", before));
        let reported = ledger(&history.ledger).expect("a ledger");
        assert_eq!((reported.total, reported.items.len()), (101, limits::LEDGER_ITEMS));
        let hosts = LedgerItem {
            kind: LedgerKind::File,
            name: "/etc/hosts".to_owned(),
            before: Some(LedgerBefore::File),
        };
        assert_eq!(reported.items[0], hosts);
        assert_eq!(
            (reported.items[1].name.as_str(), reported.items[1].before),
            ("/opt/99", Some(LedgerBefore::Nothing))
        );
    }
}
