//! Machines whose Lease was verified recently, so that it is not read again at every reconcile. The Lease grants no
//! rights.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The Lease is verified again after this time.
const TRUSTED: Duration = Duration::from_secs(600);
/// At most this many machines are cached. Then the cache is cleared, which costs a request for each machine.
const MOST: usize = 20_000;

/// By UID of the CapstanConfig: when all its objects were verified.
#[derive(Debug, Default)]
pub(crate) struct VerifiedObjects(Mutex<HashMap<String, Instant>>);

impl VerifiedObjects {
    /// Whether they need not be verified now.
    pub(crate) fn holds(&self, uid: &str, now: Instant) -> bool {
        self.lock().get(uid).is_some_and(|seen| now.saturating_duration_since(*seen) < TRUSTED)
    }

    /// Records a verification and its result.
    pub(crate) fn seen(&self, uid: &str, is_right: bool, now: Instant) {
        let mut all = self.lock();
        if !is_right {
            all.remove(uid);
        } else {
            if all.len() >= MOST {
                all.clear();
            }
            all.insert(uid.to_owned(), now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        // The map only saves requests: it is usable even if another thread has panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_right_is_trusted_for_a_while() {
        let (verified_objects, now) = (VerifiedObjects::default(), Instant::now());
        assert!(!verified_objects.holds("a", now));
        verified_objects.seen("a", true, now);
        assert!(verified_objects.holds("a", now + TRUSTED / 2) && !verified_objects.holds("b", now));
        assert!(!verified_objects.holds("a", now + TRUSTED));
        verified_objects.seen("a", false, now);
        assert!(!verified_objects.holds("a", now));
    }
}
