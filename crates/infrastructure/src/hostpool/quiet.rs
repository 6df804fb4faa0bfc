//! Why a pool does nothing for a while: a move may be under way.
//!
//! A move to another plane deletes the Hosts of a pool before the pool itself, and knows nothing of pools: one that made
//! new Hosts in between would have two planes believe in the same machines, and take them away together with its Hosts.
//! What is known of a move is that it pauses the Clusters of the namespace first, and deletes them at about the time it
//! deletes the pool.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long after the last paused Cluster was seen: a move that is at its end deletes it before the pool, or after.
const AFTERWARDS: Duration = Duration::from_secs(30);

/// By UID of the pool: when a paused Cluster was last seen beside it.
#[derive(Default)]
pub(super) struct Quiet(Mutex<HashMap<String, Instant>>);

/// The Clusters beside a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clusters {
    /// There are none.
    None,
    /// One of them is paused, or more.
    Paused,
    /// None of them is paused.
    Running,
}

impl Quiet {
    /// Whether the pool keeps quiet, by the Clusters that are beside it at the time `now`.
    pub(super) fn holds(&self, pool: &str, beside: Clusters, now: Instant) -> bool {
        // What is inside is a time: a panic elsewhere has not broken it.
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, time| now.saturating_duration_since(*time) < AFTERWARDS);
        match beside {
            Clusters::Paused => _ = seen.insert(pool.to_owned(), now),
            // A pause that a person has ended is over: then the Clusters are there.
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
    fn a_pool_is_quiet_while_clusters_are_paused_and_shortly_after_they_are_gone() {
        let (quiet, now) = (Quiet::default(), Instant::now());
        assert!(!quiet.holds("p", Clusters::None, now));
        assert!(quiet.holds("p", Clusters::Paused, now));
        assert!(!quiet.holds("q", Clusters::None, now), "another pool has not been there");
        assert!(quiet.holds("p", Clusters::None, now + AFTERWARDS / 2), "its Clusters are gone");
        assert!(!quiet.holds("p", Clusters::None, now + AFTERWARDS));
        assert!(quiet.holds("p", Clusters::Paused, now));
        assert!(!quiet.holds("p", Clusters::Running, now), "its Clusters go on");
    }
}
