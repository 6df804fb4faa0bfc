//! Why a pool does nothing for a while: a move may be under way.
//!
//! A move to another plane deletes the Hosts of a pool before the pool itself, and knows nothing of pools: one that made
//! new Hosts in between would have two planes believe in the same machines, and take them away together with its Hosts.
//! What is known of a move is that it pauses the Clusters of the namespace first, and deletes them at about the time it
//! deletes the pool.

use capstan_api::core::Cluster;
use capstan_api::infrastructure::HostPool;
use capstan_controller::Result;
use kube::ResourceExt as _;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::context::Infrastructure;

/// How long after the last paused Cluster was seen: a move that is at its end deletes it before the pool, or after.
const AFTERWARDS: Duration = Duration::from_secs(30);

/// By UID of the pool: when a paused Cluster was last seen beside it.
#[derive(Default)]
pub(super) struct Quiet(Mutex<HashMap<String, Instant>>);

impl Quiet {
    /// Whether the pool keeps quiet.
    pub(super) async fn holds(&self, infrastructure: &Infrastructure, pool: &HostPool) -> Result<bool> {
        let namespace = pool.namespace().unwrap_or_default();
        let clusters = infrastructure.caches.of::<Cluster>().in_namespace(&namespace).await?;
        let is_paused = clusters.iter().any(|cluster| cluster.spec.paused == Some(true));
        // A pause that a person has ended is over: then the Clusters are there.
        let is_over = !is_paused && !clusters.is_empty();
        Ok(self.note(&pool.uid().unwrap_or_default(), is_paused, is_over, Instant::now()))
    }

    fn note(&self, pool: &str, is_paused: bool, is_over: bool, now: Instant) -> bool {
        // What is inside is a time: a panic elsewhere has not broken it.
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, time| now.saturating_duration_since(*time) < AFTERWARDS);
        if is_paused {
            seen.insert(pool.to_owned(), now);
        } else if is_over {
            seen.remove(pool);
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
        assert!(!quiet.note("p", false, false, now));
        assert!(quiet.note("p", true, false, now));
        assert!(!quiet.note("q", false, false, now), "another pool has not been there");
        assert!(quiet.note("p", false, false, now + AFTERWARDS / 2), "its Clusters are gone");
        assert!(!quiet.note("p", false, false, now + AFTERWARDS));
        assert!(quiet.note("p", true, false, now));
        assert!(!quiet.note("p", false, true, now), "its Clusters go on");
    }
}
