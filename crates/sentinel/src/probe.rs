//! Counters of probes. They stop at their threshold, so that the status of a probe rarely changes.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::plan::Probe;

/// The status of a probe. Zero values are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Whether the last threshold that was reached is that of success.
    #[serde(skip_serializing_if = "is_default")]
    pub healthy: bool,
    /// Consecutive successes.
    #[serde(skip_serializing_if = "is_default")]
    pub success_count: i64,
    /// Consecutive failures.
    #[serde(skip_serializing_if = "is_default")]
    pub failure_count: i64,
}

/// Statuses by the name of the probe.
pub type Statuses = BTreeMap<String, Status>;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Status {
    /// Counts a result.
    pub fn observe(&mut self, probe: &Probe, succeeded: bool) {
        let threshold = |number: i64, default| if number == 0 { default } else { number };
        if succeeded {
            let needed = threshold(probe.success_threshold, 1);
            if self.success_count < needed {
                self.success_count += 1;
                self.healthy |= self.success_count >= needed;
            }
            self.failure_count = 0;
        } else {
            let needed = threshold(probe.failure_threshold, 3);
            if self.failure_count < needed {
                self.failure_count += 1;
                self.healthy &= self.failure_count < needed;
            }
            self.success_count = 0;
        }
    }
}

impl Probe {
    /// How long an answer may take.
    pub fn timeout(&self) -> Duration {
        match u64::try_from(self.timeout_seconds) {
            Ok(seconds @ 1..) => Duration::from_secs(seconds),
            _ => Duration::from_secs(1),
        }
    }

    /// How long to wait for the first probe after the plan was applied.
    pub fn initial_delay(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.initial_delay_seconds).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stop_at_their_threshold() {
        let probe = Probe { success_threshold: 2, ..Probe::default() };
        let table = [
            (true, false, 1, 0),
            (true, true, 2, 0),
            (true, true, 2, 0),
            (false, true, 0, 1),
            (false, true, 0, 2),
            (true, true, 1, 0),
            (false, true, 0, 1),
            (false, true, 0, 2),
            (false, false, 0, 3),
            (false, false, 0, 3),
            (true, false, 1, 0),
            (true, true, 2, 0),
        ];
        let mut status = Status::default();
        for (number, (succeeded, healthy, success_count, failure_count)) in table.into_iter().enumerate() {
            status.observe(&probe, succeeded);
            assert_eq!(status, Status { healthy, success_count, failure_count }, "result {number}");
        }
        assert_eq!(serde_json::to_string(&Status::default()).expect("JSON"), "{}");
        let text = serde_json::to_string(&status).expect("JSON");
        assert_eq!(text, r#"{"healthy":true,"successCount":2}"#);
    }

    #[test]
    fn a_timeout_has_the_documented_default() {
        let timeout = |seconds| Probe { timeout_seconds: seconds, ..Probe::default() }.timeout();
        assert_eq!([timeout(0), timeout(-3), timeout(5)].map(|timeout| timeout.as_secs()), [1, 1, 5]);
    }
}
