//! Stops a pool while a move to another plane may be under way.
//!
//! A move deletes the Hosts of a pool before the pool. A pool that created new Hosts in between would leave the same machines
//! on two planes, and delete the machines together with its Hosts. A move pauses the Clusters of the namespace first, and
//! deletes them at about the time it deletes the pool; this is how it is recognized.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the guard holds after the last paused Cluster was seen: a move deletes it before or after the pool.
const AFTERWARDS: Duration = Duration::from_secs(30);

/// By UID of the pool: when a paused Cluster was last seen beside it.
#[derive(Default)]
pub(super) struct MoveGuard(Mutex<HashMap<String, Instant>>);

/// The Clusters beside a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clusters {
    /// There are no Clusters.
    None,
    /// At least one Cluster is paused.
    Paused,
    /// No Cluster is paused.
    Running,
}

impl MoveGuard {
    /// Whether the pool must not be changed, given the Clusters of its namespace at the time `now`.
    pub(super) fn holds(&self, pool: &str, beside: Clusters, now: Instant) -> bool {
        // The map is consistent even if another thread has panicked.
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, time| now.saturating_duration_since(*time) < AFTERWARDS);
        match beside {
            Clusters::Paused => _ = seen.insert(pool.to_owned(), now),
            // The user has ended the pause: the Clusters still exist.
            Clusters::Running => _ = seen.remove(pool),
            Clusters::None => {}
        }
        seen.contains_key(pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_holds_while_clusters_are_paused_and_shortly_after_they_are_deleted() {
        let (move_guard, now) = (MoveGuard::default(), Instant::now());
        assert!(!move_guard.holds("p", Clusters::None, now));
        assert!(move_guard.holds("p", Clusters::Paused, now));
        assert!(!move_guard.holds("q", Clusters::None, now), "another pool has not been there");
        assert!(move_guard.holds("p", Clusters::None, now + AFTERWARDS / 2), "its Clusters are gone");
        assert!(!move_guard.holds("p", Clusters::None, now + AFTERWARDS));
        assert!(move_guard.holds("p", Clusters::Paused, now));
        assert!(!move_guard.holds("p", Clusters::Running, now), "its Clusters go on");
    }
}
