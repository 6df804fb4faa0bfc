//! The drift in a report: the last finding of each step, and the result of its repair. Bounded.

use capstan_plan::{Drift, MachinePlan, StepName, limits};
use jiff::Timestamp;
use std::time::Duration;

/// The pause after a repair that failed. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_mins(5);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// The findings, newest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

#[derive(Clone, Debug)]
struct Finding {
    drift: Drift,
    /// Failed repairs in a row.
    failed: u32,
    /// Time of the next repair.
    not_before: Duration,
}

impl Findings {
    /// The items for the report.
    pub(crate) fn reported(&self) -> Vec<Drift> {
        self.0.iter().map(|finding| finding.drift.clone()).collect()
    }

    /// Whether any finding is not repaired.
    pub(crate) fn are_open(&self) -> bool {
        self.0.iter().any(|finding| finding.drift.repaired.is_none())
    }

    /// Whether a finding of this step is not repaired.
    pub(crate) fn is_open(&self, step: &StepName) -> bool {
        self.0.iter().any(|finding| finding.drift.step == *step && finding.drift.repaired.is_none())
    }

    /// Records a finding. The same finding again changes nothing.
    pub(crate) fn found(&mut self, step: &StepName, what: &str, now: Timestamp) {
        let known = self.0.iter().position(|finding| finding.drift.step == *step);
        let mut times = 1;
        if let Some(at) = known {
            let finding = &mut self.0[at];
            if finding.drift.repaired.is_none() {
                what.clone_into(&mut finding.drift.found);
                return;
            }
            times = self.0.remove(at).drift.times.saturating_add(1);
        }
        let drift = Drift {
            step: step.clone(),
            found: what.to_owned(),
            since: now,
            repaired: None,
            message: None,
            times,
        };
        self.0.insert(0, Finding { drift, failed: 0, not_before: Duration::ZERO });
        if self.0.len() > limits::DRIFT_ITEMS {
            let done = self.0.iter().rposition(|finding| finding.drift.repaired.is_some());
            self.0.remove(done.unwrap_or(self.0.len() - 1));
        }
    }

    /// Records that the finding of a step is repaired.
    pub(crate) fn repaired(&mut self, step: &StepName, now: Timestamp) {
        if let Some(finding) = self.open(step) {
            finding.drift.repaired = Some(now);
            (finding.failed, finding.not_before) = (0, Duration::ZERO);
        }
    }

    /// Records why a finding is not repaired yet.
    pub(crate) fn explain(&mut self, step: &StepName, message: String) {
        if let Some(finding) = self.open(step) {
            finding.drift.message = Some(message);
        }
    }

    /// Records a failed repair.
    pub(crate) fn failed(&mut self, step: &StepName, message: String, elapsed: Duration) {
        if let Some(finding) = self.open(step) {
            finding.drift.message = Some(message);
            let pause = FIRST_PAUSE * (1 << finding.failed.min(10));
            finding.failed = finding.failed.saturating_add(1);
            finding.not_before = elapsed + pause.min(LONGEST_PAUSE);
        }
    }

    /// Whether a repair is due.
    pub(crate) fn is_due(&self, step: &StepName, elapsed: Duration) -> bool {
        let known = self.0.iter().find(|finding| finding.drift.step == *step);
        known.is_none_or(|finding| finding.not_before <= elapsed)
    }

    /// Removes findings of steps that are not in this plan.
    pub(crate) fn keep(&mut self, plan: &MachinePlan) {
        self.0.retain(|finding| plan.steps.iter().any(|step| step.name == finding.drift.step));
    }

    fn open(&mut self, step: &StepName) -> Option<&mut Finding> {
        self.0.iter_mut().find(|finding| finding.drift.step == *step && finding.drift.repaired.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> StepName {
        text.parse().expect("a name")
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn what_is_found_again_is_counted_and_what_is_repaired_makes_room_first() {
        let mut findings = Findings::default();
        findings.found(&name("a"), "missing", at(1));
        findings.found(&name("a"), "changed", at(2));
        findings.failed(&name("a"), "no room".to_owned(), Duration::ZERO);
        assert!(findings.are_open() && !findings.is_due(&name("a"), FIRST_PAUSE / 2));
        assert!(findings.is_due(&name("a"), FIRST_PAUSE));
        let reported = findings.reported();
        assert_eq!((reported[0].found.as_str(), reported[0].since, reported[0].times), ("changed", at(1), 1));
        findings.repaired(&name("a"), at(3));
        assert!(!findings.are_open());
        findings.found(&name("a"), "missing", at(4));
        let reported = findings.reported();
        assert_eq!((reported.len(), reported[0].times, reported[0].repaired), (1, 2, None));

        findings.found(&name("b"), "missing", at(5));
        findings.repaired(&name("b"), at(6));
        for step in 0..limits::DRIFT_ITEMS {
            findings.found(&name(&format!("s{step}")), "missing", at(7));
        }
        let reported = findings.reported();
        assert_eq!(reported.len(), limits::DRIFT_ITEMS);
        assert!(reported.iter().all(|drift| drift.step != name("b")), "it was repaired");
    }
}
