//! Evictions that an API server has rejected with 429, so that a pod is not evicted in every reconcile. Pure: the time is an
//! argument.

use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A rejected eviction is retried after this time, then after twice that, and so on.
const FIRST_WAIT: SignedDuration = SignedDuration::from_secs(5);
const LONGEST_WAIT: SignedDuration = SignedDuration::from_secs(30);
/// An entry that is overdue by this time belongs to a deleted pod or to a drain that has ended.
const OVERDUE: SignedDuration = SignedDuration::from_mins(10);

/// The last rejected eviction of each pod, by UID.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<HashMap<String, Refusal>>);

/// The last rejected eviction of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Why the eviction was rejected.
    pub(super) why: String,
    /// Before this time the pod is not evicted again.
    pub(super) until: Timestamp,
    wait: SignedDuration,
}

impl Refusals {
    /// The last rejected eviction of a pod, if there was one.
    pub(super) fn of(&self, pod: &str) -> Option<Refusal> {
        self.lock().get(pod).cloned()
    }

    /// Records a rejection. Returns when the eviction may be retried.
    pub(super) fn refused(&self, pod: &str, why: &str, now: Timestamp) -> Timestamp {
        let mut known = self.lock();
        known.retain(|_, refusal| now.duration_since(refusal.until) < OVERDUE);
        let wait = known.get(pod).map_or(FIRST_WAIT, |last| (last.wait * 2).min(LONGEST_WAIT));
        let until = now + wait;
        known.insert(pod.to_owned(), Refusal { why: why.to_owned(), until, wait });
        until
    }

    /// Removes the entry of a pod that terminates.
    pub(super) fn forget(&self, pod: &str) {
        self.lock().remove(pod);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Refusal>> {
        // The content only saves requests: a panic elsewhere leaves it usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn waits_grow_to_half_a_minute() {
        let refusals = Refusals::default();
        let mut now = at(0);
        for expected in [5, 10, 20, 30, 30] {
            let until = refusals.refused("a", "budget", now);
            assert_eq!(until.duration_since(now), SignedDuration::from_secs(expected));
            assert_eq!(refusals.of("a").map(|refusal| refusal.until), Some(until));
            now = until;
        }
        assert_eq!(refusals.refused("b", "budget", now), now + FIRST_WAIT, "each pod has its own");
    }

    #[test]
    fn what_left_or_is_long_over_is_forgotten() {
        let refusals = Refusals::default();
        refusals.refused("left", "budget", at(0));
        refusals.forget("left");
        assert_eq!(refusals.of("left"), None);
        refusals.refused("old", "budget", at(0));
        refusals.refused("other", "budget", at(604));
        assert!(refusals.of("old").is_some());
        refusals.refused("other", "budget", at(605));
        assert_eq!(refusals.of("old"), None);
    }
}
