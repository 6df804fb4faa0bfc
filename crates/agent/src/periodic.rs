//! Periodic commands of an applied plan: when each is due, and the result of its last run.
//!
//! A run is recorded before it begins, so that an agent that ends while the command runs does not run it again before its interval
//! has passed. Within one process the monotonic clock measures the interval; the wall clock only says how much of it passed while
//! the agent was away.
//!
//! A command runs under a supervisor, which enforces its timeout also when the agent is killed. The next process of the agent ends
//! it before anything else, so no command runs beside another one, or beside a plan.

use capstan_plan::{Digest, Periodic, PeriodicResult, StepName, VerifiedPlan};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::Clock;
use crate::journal::{Class, Outcome};
use crate::machine::{CommandKey, Invocation, Machine, MachineError, Ran};
use crate::outputs;
use crate::redact::Redactor;
use crate::report;

/// Why a run that has no end failed.
const LOST: &str = "the agent ended while the command ran, and has ended the command";

/// The last run of a command, as it is kept on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    /// Digest of the command line: a run of another command says nothing about this one.
    command: Digest,
    result: PeriodicResult,
}

/// A command with its last run.
#[derive(Debug)]
struct Entry {
    periodic: Periodic,
    run: Option<Run>,
    /// By [`Clock::elapsed`].
    next: Duration,
}

/// The periodic commands of the applied plan.
#[derive(Debug, Default)]
pub struct Timetable {
    entries: Vec<Entry>,
    stopped: bool,
    redactor: Redactor,
}

/// A command whose run was recorded as begun.
#[derive(Debug)]
pub struct Begun {
    at: usize,
    periodic: Periodic,
    key: CommandKey,
}

impl Timetable {
    /// Runs the commands of this plan from now on. `kept` is what [`to_bytes`](Self::to_bytes) has returned to an earlier process.
    pub fn follow(&mut self, plan: &VerifiedPlan, kept: Option<&[u8]>, clock: &impl Clock) {
        let known = std::mem::take(&mut self.entries);
        // What cannot be read was not written by an agent, and is worth one run too many.
        let mut runs: BTreeMap<StepName, Run> =
            kept.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default();
        let (same, changed): (Vec<Entry>, Vec<Entry>) =
            known.into_iter().partition(|entry| plan.plan().periodic.contains(&entry.periodic));
        for entry in changed {
            runs.extend(entry.run.map(|run| (entry.periodic.name, run)));
        }
        let mut same: BTreeMap<StepName, Entry> =
            same.into_iter().map(|entry| (entry.periodic.name.clone(), entry)).collect();
        let mut entry = |periodic: &Periodic| {
            if let Some(entry) = same.remove(&periodic.name) {
                return entry;
            }
            let run = runs.remove(&periodic.name).filter(|run| run.command == command(periodic));
            let run = run.map(|run| Run { result: ended(run.result), ..run });
            let left =
                run.as_ref().map_or(Duration::ZERO, |run| left(periodic, run.result.started, clock.now()));
            Entry { periodic: periodic.clone(), run, next: clock.elapsed() + left }
        };
        self.entries = plan.plan().periodic.iter().map(&mut entry).collect();
        self.redactor = Redactor::of(plan.plan());
        self.stopped = false;
    }

    /// Runs nothing until [`follow`](Self::follow). What is known of the last runs stays.
    pub const fn stop(&mut self) {
        self.stopped = true;
    }

    /// When the next command is due, by [`Clock::elapsed`].
    pub fn next(&self) -> Option<Duration> {
        if self.stopped { None } else { self.entries.iter().map(|entry| entry.next).min() }
    }

    /// Records that the command that has been due for the longest time begins, if one is due.
    pub fn begin(&mut self, clock: &impl Clock) -> Option<Begun> {
        let known = self.entries.iter().enumerate();
        let due = known.filter(|(_, entry)| !self.stopped && entry.next <= clock.elapsed());
        let (at, _) = due.min_by_key(|(_, entry)| entry.next)?;
        let entry = &mut self.entries[at];
        let failures = entry.run.as_ref().map_or(0, |run| run.result.failures);
        let (command, started) = (command(&entry.periodic), clock.now());
        entry.next = clock.elapsed() + interval(&entry.periodic);
        entry.run = Some(Run {
            command,
            result: PeriodicResult {
                name: entry.periodic.name.clone(),
                started,
                finished: None,
                exit_code: None,
                failures,
                message: None,
                stdout: None,
                stderr: None,
            },
        });
        let key = CommandKey::Periodic { name: entry.periodic.name.clone(), command, begun: started };
        Some(Begun { at, periodic: entry.periodic.clone(), key })
    }

    /// Records how it ended.
    pub fn end(&mut self, begun: &Begun, outcome: &Outcome, clock: &impl Clock) {
        let Some(run) = self.entries.get_mut(begun.at).and_then(|entry| entry.run.as_mut()) else { return };
        let (stdout, stderr) = outputs::ends(&outcome.output);
        let failures = match outcome.failure {
            Some(_) => run.result.failures.saturating_add(1),
            None => 0,
        };
        run.result = PeriodicResult {
            finished: Some(clock.now()),
            exit_code: outcome.exit_code,
            failures,
            message: outcome.failure.as_ref().map(|failure| failure.message.clone()),
            stdout,
            stderr,
            ..run.result.clone()
        };
    }

    /// The last runs, to be kept on the disk.
    pub fn to_bytes(&self) -> Vec<u8> {
        let runs = self.entries.iter().filter_map(|entry| Some((&entry.periodic.name, entry.run.as_ref()?)));
        let runs: BTreeMap<&StepName, &Run> = runs.collect();
        serde_json::to_vec(&runs).expect("names, numbers, times and texts")
    }

    /// The last runs, for the report.
    pub fn results(&self) -> Vec<PeriodicResult> {
        self.entries.iter().filter_map(|entry| Some(entry.run.as_ref()?.result.clone())).collect()
    }

    /// What removes secrets from the output of commands.
    pub const fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}

impl Begun {
    /// Runs the command to its end. If the future is dropped, it goes on until its timeout, or until the next process of the
    /// agent ends it.
    pub async fn run(&self, machine: &impl Machine, redactor: &Redactor) -> Outcome {
        let ran = match self.run_with(machine, Some(&self.key)).await {
            // There is no room for the record of a command. This one may be what makes room.
            Err(error) if error.is_full() => self.run_with(machine, None).await,
            ran => ran,
        };
        // What stays by mistake is removed before the next command is started.
        let _ = machine.dismiss(&self.key).await;
        match ran {
            Ok(ran) => report::outcome(&ran, redactor),
            Err(error) => Outcome::failure(Class::Transient, redactor.text(&error.to_string())),
        }
    }

    async fn run_with(&self, machine: &impl Machine, key: Option<&CommandKey>) -> Result<Ran, MachineError> {
        let timeout = Duration::from_secs(self.periodic.timeout_seconds.into());
        machine.run(Invocation { argv: &self.periodic.argv, env: &[], timeout, key }).await
    }
}

fn command(periodic: &Periodic) -> Digest {
    Digest::of(&serde_json::to_vec(periodic.argv.words()).expect("texts"))
}

fn interval(periodic: &Periodic) -> Duration {
    Duration::from_secs(periodic.interval_seconds.into())
}

/// How much of the interval is left. Nothing is left if the last run is in the future: the clock was set back since.
fn left(periodic: &Periodic, started: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(started))
        .map_or(Duration::ZERO, |passed| interval(periodic).saturating_sub(passed))
}

/// What is known of a run after a restart of the agent, which ends commands without a key.
fn ended(result: PeriodicResult) -> PeriodicResult {
    match result.finished {
        Some(_) => result,
        None if result.message.is_some() => result,
        None => PeriodicResult {
            failures: result.failures.saturating_add(1),
            message: Some(LOST.to_owned()),
            ..result
        },
    }
}
