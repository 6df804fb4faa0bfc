//! Which machines' rights were found to be right a moment ago, so that they are not read again at every turn.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After this time they are looked at again.
const TRUSTED: Duration = Duration::from_secs(600);
/// So many are remembered; then it starts afresh, which costs a few requests for each.
const MOST: usize = 20_000;

/// By UID of the CapstanConfig: when all its objects were as they should be.
#[derive(Debug, Default)]
pub(crate) struct Settled(Mutex<HashMap<String, Instant>>);

impl Settled {
    /// Whether a look can be spared.
    pub(crate) fn holds(&self, uid: &str, now: Instant) -> bool {
        self.lock().get(uid).is_some_and(|seen| now.saturating_duration_since(*seen) < TRUSTED)
    }

    /// They were looked at, and are right, or not.
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
        // What is inside spares work, nothing more: a panic elsewhere has not broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_right_is_trusted_for_a_while() {
        let (settled, now) = (Settled::default(), Instant::now());
        assert!(!settled.holds("a", now));
        settled.seen("a", true, now);
        assert!(settled.holds("a", now + TRUSTED / 2) && !settled.holds("b", now));
        assert!(!settled.holds("a", now + TRUSTED));
        settled.seen("a", false, now);
        assert!(!settled.holds("a", now));
    }
}
