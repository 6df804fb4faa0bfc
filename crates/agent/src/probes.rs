//! Health probes of an applied plan.
//!
//! A verdict changes only after the number of consecutive results that the probe requires, and only a change is
//! reported.

use capstan_plan::{Probe, ProbeResult, Target, VerifiedPlan};
use futures::future::join_all;
use jiff::Timestamp;
use std::time::Duration;

use crate::clock::Clock;
use crate::journal::{Class, Outcome};
use crate::machine::{Exit, Invocation, Machine, MachineError, Ran};
use crate::redact::Redactor;
use crate::report;

/// The result of a probe.
pub(crate) enum Answer {
    Exec(Ran),
    Http(u16),
}

/// Runs a probe once. An error means that there was no response.
pub(crate) async fn ask<M: Machine>(
    machine: &M,
    target: &Target,
    timeout: Duration,
) -> Result<Answer, MachineError> {
    match target {
        Target::Exec(argv) => {
            machine.run(Invocation { argv, env: &[], timeout, key: None }).await.map(Answer::Exec)
        }
        Target::Http(url) => machine.get(url, timeout).await.map(Answer::Http),
    }
}

impl Answer {
    /// Whether the probe succeeds, and its result if it does not.
    fn verdict(&self) -> Result<(), String> {
        match self {
            Self::Exec(ran) if ran.exit == Exit::Code(0) => Ok(()),
            Self::Exec(ran) => Err(format!("the command {}", report::ending(ran.exit))),
            Self::Http(200..=299) => Ok(()),
            Self::Http(status) => Err(format!("the answer was {status}")),
        }
    }

    pub(crate) fn outcome(&self, redactor: &Redactor) -> Outcome {
        match (self, self.verdict()) {
            (Self::Exec(ran), _) => report::outcome(ran, redactor),
            (Self::Http(_), Ok(())) => Outcome::success(),
            (Self::Http(_), Err(message)) => Outcome::failure(Class::Transient, message),
        }
    }
}

/// The state of one probe. Pure: the time is an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    in_a_row: u32,
    last_was_good: bool,
    /// By [`Clock::elapsed`], so that a change of the wall clock does not stop the probe.
    next: Duration,
    verdict: Option<(bool, Option<String>, Timestamp)>,
}

impl Health {
    /// Unknown, with the first probe due.
    pub const fn unknown(elapsed: Duration) -> Self {
        Self { in_a_row: 0, last_was_good: false, next: elapsed, verdict: None }
    }

    /// Records a result, and returns whether the verdict has changed.
    pub fn observe(
        &mut self,
        probe: &Probe,
        answer: Result<(), String>,
        now: Timestamp,
        elapsed: Duration,
    ) -> bool {
        let is_good = answer.is_ok();
        self.in_a_row = if is_good == self.last_was_good { self.in_a_row.saturating_add(1) } else { 1 };
        self.last_was_good = is_good;
        self.next = elapsed + Duration::from_secs(probe.interval_seconds.into());
        let needed = if is_good { probe.success_threshold } else { probe.failure_threshold };
        let was = self.verdict.as_ref().map(|(healthy, ..)| *healthy);
        if self.in_a_row < needed || was == Some(is_good) {
            return false;
        }
        self.verdict = Some((is_good, answer.err(), now));
        true
    }
}

/// Runs the probes of a plan.
#[derive(Debug, Default)]
pub struct Prober {
    watched: Vec<(Probe, Health)>,
    redactor: Redactor,
}

impl Prober {
    /// Runs the probes of this plan from now on. The state of unchanged probes is kept.
    pub fn watch(&mut self, plan: &VerifiedPlan, elapsed: Duration) {
        let known = std::mem::take(&mut self.watched);
        let health =
            |probe: &Probe| known.iter().find(|(other, _)| other == probe).map(|(_, health)| health.clone());
        let probes = plan.plan().probes.iter();
        self.watched = probes
            .map(|probe| (probe.clone(), health(probe).unwrap_or_else(|| Health::unknown(elapsed))))
            .collect();
        self.redactor = Redactor::of(plan.plan());
    }

    /// When the next probe is due, by [`Clock::elapsed`].
    pub fn next(&self) -> Option<Duration> {
        self.watched.iter().map(|(_, health)| health.next).min()
    }

    /// Runs all due probes concurrently, and returns whether a verdict has changed.
    pub async fn probe_due(&mut self, machine: &impl Machine, clock: &impl Clock) -> bool {
        let elapsed = clock.elapsed();
        let due = self.watched.iter_mut().filter(|(_, health)| health.next <= elapsed);
        let asked = due.map(async |(probe, health)| {
            let timeout = Duration::from_secs(probe.timeout_seconds.into());
            let answer = match ask(machine, &probe.target, timeout).await {
                Ok(answer) => answer.verdict(),
                Err(error) => Err(error.to_string()),
            };
            let answer = answer.map_err(|reason| self.redactor.text(&reason));
            health.observe(probe, answer, clock.now(), clock.elapsed())
        });
        join_all(asked).await.into_iter().any(|changed| changed)
    }

    /// The verdicts. Probes without a verdict are omitted.
    pub fn results(&self) -> Vec<ProbeResult> {
        let found = self.watched.iter().filter_map(|(probe, health)| {
            let (healthy, message, since) = health.verdict.clone()?;
            Some(ProbeResult { name: probe.name.clone(), healthy, message, since: Some(since) })
        });
        found.collect()
    }
}
