//! The Secret that has the plan and the report.

use capstan_plan::Digest;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::plan;

/// The keys of the Secret.
pub mod keys {
    /// The plan. The orchestrator writes it.
    pub const PLAN: &str = "plan";
    /// State of the plan; both write it. Without it, checksums decide.
    pub const STATE: &str = "plan-state";
    /// Counts the runs of plans with a state.
    pub const REVISION: &str = "plan-revision";
    /// Failures after which a plan is not tried again. The orchestrator writes it.
    pub const MAX_FAILURES: &str = "max-failures";
    /// Interval of probes. The orchestrator writes it.
    pub const PROBE_PERIOD: &str = "probe-period-seconds";
    /// Checksum of the applied plan.
    pub const APPLIED_CHECKSUM: &str = "applied-checksum";
    /// Saved output of its instructions.
    pub const APPLIED_OUTPUT: &str = "applied-output";
    /// Output of periodic instructions.
    pub const PERIODIC_OUTPUT: &str = "applied-periodic-output";
    /// Checksum of the failed plan.
    pub const FAILED_CHECKSUM: &str = "failed-checksum";
    /// Saved output of its instructions.
    pub const FAILED_OUTPUT: &str = "failed-output";
    /// Consecutive failures of the plan.
    pub const FAILURE_COUNT: &str = "failure-count";
    /// Consecutive successes.
    pub const SUCCESS_COUNT: &str = "success-count";
    /// When instructions last ended.
    pub const LAST_APPLY_TIME: &str = "last-apply-time";
    /// Results of probes.
    pub const PROBE_STATUSES: &str = "probe-statuses";
    /// Why the plan failed or is refused. Not in upstream's contract.
    pub const MESSAGE: &str = "capstan-message";
}

/// Values of `plan-state`.
pub mod states {
    /// The orchestrator has written the plan.
    pub const PENDING: &str = "pending";
    /// The agent applies it.
    pub const IN_PROGRESS: &str = "in-progress";
    /// All instructions have succeeded.
    pub const SUCCEEDED: &str = "succeeded";
    /// One has not.
    pub const FAILED: &str = "failed";
}

/// Period of probes without [`keys::PROBE_PERIOD`].
pub const PROBE_PERIOD: Duration = Duration::from_secs(5);

/// The data of the Secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Data(pub BTreeMap<String, Vec<u8>>);

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Data {
    /// The value of a key; empty if it is absent.
    pub fn bytes(&self, key: &str) -> &[u8] {
        self.0.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// The value of a key as text; empty if it is absent or not text.
    pub fn text(&self, key: &str) -> &str {
        std::str::from_utf8(self.bytes(key)).unwrap_or_default()
    }

    /// The value of a key as a number; 0 if it is absent or not one.
    pub fn count(&self, key: &str) -> u64 {
        self.text(key).trim().parse().unwrap_or_default()
    }

    /// Sets a key.
    pub fn set(&mut self, key: &str, value: impl Into<Vec<u8>>) {
        self.0.insert(key.to_owned(), value.into());
    }

    /// Empties a key, if it exists.
    pub fn empty(&mut self, key: &str) {
        if let Some(value) = self.0.get_mut(key) {
            value.clear();
        }
    }

    /// The plan, if there is one. An empty one is none.
    pub fn plan(&self) -> Option<&[u8]> {
        Some(self.bytes(keys::PLAN)).filter(|plan| !plan.is_empty())
    }

    /// The checksum of the plan.
    pub fn checksum(&self) -> Option<Digest> {
        self.plan().map(plan::checksum)
    }

    /// The state of the plan; empty where checksums decide.
    pub fn state(&self) -> &str {
        self.text(keys::STATE)
    }

    /// The largest number of failures; `None` if there is no limit, also because the value cannot be read.
    pub fn max_failures(&self) -> Option<u64> {
        // A negative number means no limit upstream, too.
        self.text(keys::MAX_FAILURES).parse().ok()
    }

    /// The period of probes.
    pub fn probe_period(&self) -> Duration {
        let seconds = self.text(keys::PROBE_PERIOD).trim().parse::<f64>().ok();
        let period = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        period.map_or(PROBE_PERIOD, |period| {
            period.clamp(Duration::from_millis(100), Duration::from_secs(86_400))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_cannot_be_read_are_defaults() {
        let mut data = Data::default();
        assert_eq!(
            (data.plan(), data.count("x"), data.max_failures(), data.probe_period()),
            (None, 0, None, PROBE_PERIOD)
        );
        for (period, expected) in
            [("1", 1000), ("0.5", 500), ("0", 100), ("-1", 5000), ("x", 5000), ("NaN", 5000)]
        {
            data.set(keys::PROBE_PERIOD, period);
            assert_eq!(data.probe_period(), Duration::from_millis(expected), "{period}");
        }
        for (text, expected) in [("0", Some(0)), ("3", Some(3)), ("-1", None), ("x", None), ("", None)] {
            data.set(keys::MAX_FAILURES, text);
            assert_eq!(data.max_failures(), expected, "{text}");
        }
        data.set("a", "b");
        data.empty("a");
        data.empty("absent");
        assert_eq!((data.0.get("a"), data.0.get("absent")), (Some(&Vec::new()), None));
        assert!(!format!("{data:?}").contains("0.5"));
    }
}
