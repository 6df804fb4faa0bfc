//! Health probes of an applied plan.
//!
//! A verdict changes only after the number of consecutive results that the probe requires, and only a change is
//! reported.

use capstan_plan::{FileTarget, Probe, ProbeResult, Target, UnitName, VerifiedPlan};
use futures::future::join_all;
use jiff::Timestamp;
use std::time::Duration;

use crate::clock::Clock;
use crate::engine::systemctl;
use crate::journal::{Class, Outcome};
use crate::machine::{Exit, Invocation, Machine, MachineError, Ran};
use crate::redact::Redactor;
use crate::report;

/// The result of a target.
pub(crate) struct Answer {
    /// Whether it succeeds, and what is wrong if it does not.
    verdict: Result<(), String>,
    /// The command, if the target is one.
    ran: Option<Ran>,
}

/// Tries a target once. An error means that there was no response.
pub(crate) async fn ask<M: Machine>(
    machine: &M,
    target: &Target,
    timeout: Duration,
    now: Timestamp,
) -> Result<Answer, MachineError> {
    let verdict = match target {
        Target::Exec(argv) => {
            let ran = machine.run(Invocation { argv, env: &[], timeout, key: None }).await?;
            let verdict = match ran.exit {
                Exit::Code(0) => Ok(()),
                exit => Err(format!("the command {}", report::ending(exit))),
            };
            return Ok(Answer { verdict, ran: Some(ran) });
        }
        Target::Http(url) => status(machine.get(url, timeout).await?),
        Target::Https(target) => status(machine.get_https(target, timeout).await?),
        Target::Tcp(address) => {
            machine.connect(address, timeout).await?;
            Ok(())
        }
        Target::File(target) => is_recent(target, machine.modified(&target.path).await?, now),
        Target::Unit(name) => {
            let argv = systemctl(&["is-active", "--", name.as_str()]);
            is_active(name, &machine.run(Invocation { argv: &argv, env: &[], timeout, key: None }).await?)
        }
    };
    Ok(Answer { verdict, ran: None })
}

fn status(status: u16) -> Result<(), String> {
    match status {
        200..=299 => Ok(()),
        status => Err(format!("the answer was {status}")),
    }
}

fn is_recent(target: &FileTarget, modified: Option<Timestamp>, now: Timestamp) -> Result<(), String> {
    let FileTarget { path, max_age_seconds } = target;
    let modified = modified.ok_or_else(|| format!("{path} does not exist"))?;
    let age = now.as_second().saturating_sub(modified.as_second());
    match max_age_seconds {
        Some(most) if age > i64::from(*most) => {
            Err(format!("{path} was last changed {age} seconds ago, and {most} is the most"))
        }
        _ => Ok(()),
    }
}

fn is_active(name: &UnitName, ran: &Ran) -> Result<(), String> {
    let said = String::from_utf8_lossy(&ran.stdout.head);
    match (ran.exit, said.lines().next().map(str::trim)) {
        (Exit::Code(0), _) => Ok(()),
        // systemctl prints one word, which is the state of the unit.
        (Exit::Code(_), Some(state)) if is_word(state) => Err(format!("the unit {name} is {state}")),
        (exit, _) => Err(format!("the state of unit {name} is unknown: systemctl {}", report::ending(exit))),
    }
}

fn is_word(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_lowercase() || c == b'-')
}

impl Answer {
    /// Whether the target succeeds, and for users why not: with the last line that a command has printed.
    fn verdict(self, redactor: &Redactor) -> Result<(), String> {
        let said = self.ran.and_then(|ran| report::last_words(&redactor.output(&ran)));
        self.verdict.map_err(|why| match said {
            Some(said) => format!("{}: {said}", redactor.text(&why)),
            None => redactor.text(&why),
        })
    }

    pub(crate) fn outcome(&self, redactor: &Redactor) -> Outcome {
        match (&self.ran, &self.verdict) {
            (Some(ran), _) => report::outcome(ran, redactor),
            (None, Ok(())) => Outcome::success(),
            (None, Err(message)) => Outcome::failure(Class::Transient, message.clone()),
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
            let answer = match ask(machine, &probe.target, timeout, clock.now()).await {
                Ok(answer) => answer.verdict(&self.redactor),
                Err(error) => Err(self.redactor.text(&error.to_string())),
            };
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
