//! What is written down beside a plan, for the next one: what the machine ran before, and how often it was tried.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::earlier::Earlier;
use crate::facts::{MachineFacts, Progress};
use crate::fingerprint::Fingerprint;

/// The setup of a machine: current or desired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Kubernetes version.
    pub version: String,
    /// Digest of the inputs that require a restart; empty if unknown.
    pub restart: String,
    /// Digest of the inputs that require a drain; empty if unknown.
    pub drain: String,
}

impl Setup {
    /// The setup after a plan with this fingerprint.
    pub fn new(version: &str, fingerprint: &Fingerprint) -> Self {
        Self {
            version: version.to_owned(),
            restart: fingerprint.restart.to_string(),
            drain: fingerprint.drain.to_string(),
        }
    }

    /// Whether it is unknown what the machine runs: the gate of a plan was opened and the plan did not end.
    pub fn is_uncertain(&self) -> bool {
        self.restart.is_empty()
    }
}

/// Annotation of a plan's Secret that has the [`Record`], as JSON.
pub const RECORD_ANNOTATION: &str = "capstan.dev/plan-record";

/// What is recorded with a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The setup after the plan.
    pub setup: Setup,
    /// The setup of the machine when the plan was written; `None` if it never ran anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<Setup>,
    /// Whether no plan of the machine had been applied when this one was written. An earlier one may have been let through and
    /// not come to its end, so that `ran` is uncertain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
    /// The number of the attempt with these inputs, from 1.
    pub attempt: u32,
    /// When the plan was written.
    #[serde(default)]
    pub written: Option<Timestamp>,
    /// The value of the retry annotation at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
    /// The plans before this one, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Earlier>,
}

/// How often the same plan is tried.
pub(crate) const MOST_ATTEMPTS: u32 = 8;
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(15);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_mins(10);

impl Record {
    /// What the machine runs once this plan has come as far as it has: known for sure only when it was carried out,
    /// or never got to a restart.
    pub(crate) fn runs(&self, applied: bool, restarted: bool) -> Option<Setup> {
        if applied {
            return Some(self.setup.clone());
        }
        let same = self.ran.as_ref().is_some_and(|ran| ran.restart == self.setup.restart);
        match (restarted && !same, &self.ran) {
            // One or the other. The version is that of the data, which an older program could not read.
            (true, Some(ran)) => Some(Setup { version: ran.version.clone(), ..Setup::default() }),
            (true, None) => Some(Setup { version: self.setup.version.clone(), ..Setup::default() }),
            (false, ran) => ran.clone(),
        }
    }

    /// Whether the plan restarts Kubernetes; not if it starts it for the first time.
    pub fn restarts(&self) -> bool {
        self.ran.as_ref().is_some_and(|ran| ran.restart != self.setup.restart)
    }

    /// Whether an earlier plan was let through and did not come to its end, so that Kubernetes may have been stopped.
    pub(crate) fn may_be_down(&self) -> bool {
        self.ran.as_ref().is_some_and(Setup::is_uncertain)
    }

    /// Whether pods should be moved away before.
    pub(crate) fn drains(&self) -> bool {
        self.ran.as_ref().is_some_and(|ran| ran.drain != self.setup.drain)
    }

    /// When the same plan may be tried again after it has failed; never if it was tried often enough.
    pub(crate) fn again_at(&self) -> Option<Timestamp> {
        if self.attempt >= MOST_ATTEMPTS {
            return None;
        }
        let doubled = FIRST_PAUSE.checked_mul(1 << self.attempt.saturating_sub(1).min(10));
        let pause = doubled.map_or(LONGEST_PAUSE, |pause| pause.min(LONGEST_PAUSE));
        self.written.unwrap_or_default().checked_add(pause).ok()
    }
}

/// Whether no plan of the machine is known to have been applied.
pub fn is_first(machine: &MachineFacts) -> bool {
    match &machine.plan {
        Some(plan) => plan.record.first && plan.progress != Progress::Applied,
        None => !machine.was_planned(),
    }
}

/// The current setup of a machine, according to its plan.
pub fn runs(machine: &MachineFacts) -> Option<Setup> {
    match machine.plan.as_ref().filter(|plan| plan.sound) {
        Some(plan) => plan.record.runs(plan.progress == Progress::Applied, plan.is_open),
        // The plan was lost, and the machine was not.
        None => machine
            .kubelet_version
            .as_ref()
            .map(|version| Setup { version: version.clone(), ..Setup::default() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(name: &str) -> Setup {
        Setup { version: format!("v-{name}"), restart: name.to_owned(), drain: name.to_owned() }
    }

    fn record(ran: Option<Setup>, to: &str) -> Record {
        let written = Some(Timestamp::UNIX_EPOCH);
        Record { setup: setup(to), ran, first: false, attempt: 1, written, retry: None, earlier: vec![] }
    }

    #[test]
    fn what_runs_is_known_only_for_sure() {
        let first = record(None, "a");
        assert_eq!(first.runs(false, false), None);
        assert_eq!(first.runs(true, true), Some(setup("a")));
        // It may have started, or not.
        let unknown = first.runs(false, true).expect("something");
        assert_eq!((unknown.version.as_str(), unknown.restart.as_str()), ("v-a", ""));
        let second = record(Some(setup("a")), "b");
        assert_eq!(second.runs(false, false), Some(setup("a")));
        assert_eq!(second.runs(true, true), Some(setup("b")));
        let unknown = second.runs(false, true).expect("something");
        assert_eq!((unknown.version.as_str(), unknown.restart.as_str()), ("v-a", ""));
        // Back to what was: whatever it runs, it may be restarted.
        let back = record(Some(unknown), "a");
        assert!(back.restarts() && back.drains());
        // A plan that restarts nothing leaves no doubt.
        let live = record(Some(setup("a")), "a");
        assert_eq!(live.runs(false, true), Some(setup("a")));
        assert!(!live.restarts() && !live.drains() && !record(None, "a").restarts());
    }

    #[test]
    fn pauses_grow_and_tries_end() {
        let at = |attempt| Record { attempt, ..record(None, "a") }.again_at().map(Timestamp::as_second);
        assert_eq!([at(1), at(2), at(3), at(7)], [Some(15), Some(30), Some(60), Some(600)]);
        assert_eq!(at(MOST_ATTEMPTS), None);
    }
}
