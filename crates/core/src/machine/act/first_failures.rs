//! Records since when a step of a Machine has been failing.

use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// An older entry belongs to a Machine that is deleted.
const KEPT: SignedDuration = SignedDuration::from_hours(1);

/// The time of the first failure, by UID of the Machine. After a restart of the process, failures are counted from then on.
#[derive(Debug, Default)]
pub(in crate::machine) struct FirstFailures(Mutex<HashMap<String, Timestamp>>);

impl FirstFailures {
    /// Records a failure. Returns the time of the first one.
    pub(super) fn failed(&self, machine: &str, now: Timestamp) -> Timestamp {
        // The content is only times: a panic elsewhere leaves it usable.
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.retain(|_, since| now.duration_since(*since) < KEPT);
        *since.entry(machine.to_owned()).or_insert(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_of_each_machine_counts() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let failures = FirstFailures::default();
        assert_eq!(failures.failed("a", at(5)), at(5));
        assert_eq!(failures.failed("b", at(6)), at(6));
        assert_eq!(failures.failed("a", at(7)), at(5));
        assert_eq!(failures.failed("b", at(3605)), at(6));
        assert_eq!(failures.failed("a", at(3606)), at(3606), "the old entry was of another time");
    }
}
