//! Whether a workload cluster responds: probed every few seconds.

use http::Request;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{ChangedNode, ClusterKey, Signals};

/// Probe period of a cluster that responds.
const INTERVAL: Duration = Duration::from_secs(10);
/// Probe period before the first response. It is short, because controllers wait for the response.
const FIRST_INTERVAL: Duration = Duration::from_secs(1);
/// Longest probe period, of a cluster that has not responded for long.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(5);

/// A cluster that has not responded for this time since the first probe is not only slow to start.
const SLOW_TO_COME: SignedDuration = SignedDuration::from_secs(50);

/// Results of the health probes of a workload cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// When the cluster last responded; `None` if it never has.
    pub last_success: Option<Timestamp>,
    /// Failed probes since then.
    pub failures: u32,
    /// The first and the last failed probe.
    pub failing: Option<(Timestamp, Timestamp)>,
}

impl Health {
    /// Whether nothing is known yet: there was no response, and too few probes to conclude that there is none.
    pub fn is_unknown(&self) -> bool {
        let is_slow = |(first, last): (Timestamp, Timestamp)| last.duration_since(first) < SLOW_TO_COME;
        self.last_success.is_none() && self.failing.is_none_or(is_slow)
    }

    /// Whether it has responded within this time.
    pub fn answered_within(&self, grace: SignedDuration, now: Timestamp) -> bool {
        self.last_success.is_some_and(|time| now.duration_since(time) <= grace)
    }

    /// Counts one probe. Returns which objects are reconciled because of it.
    fn count(&mut self, success: bool, now: Timestamp) -> News {
        if !success {
            self.failures = self.failures.saturating_add(1);
            let first = self.failing.map_or(now, |(first, _)| first);
            self.failing = Some((first, now));
            // A longer outage alone may change conditions. So the Cluster is reconciled after every failure, and its machines,
            // of which there are many, after fewer and fewer failures.
            return if self.failures.is_power_of_two() { News::ForAll } else { News::ForCluster };
        }
        let is_news = self.last_success.is_none() || self.failures > 0;
        *self = Self { last_success: Some(now), failures: 0, failing: None };
        if is_news { News::ForAll } else { News::None }
    }

    /// The time until the next probe.
    fn pause(&self) -> Duration {
        let first = if self.last_success.is_some() { INTERVAL } else { FIRST_INTERVAL };
        match self.failures {
            0 => first,
            failures => first.saturating_mul(1 << (failures / 4).min(6)).min(LONGEST_INTERVAL),
        }
    }
}

/// Which objects are reconciled after a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    /// No reconcile.
    None,
    /// The Cluster.
    ForCluster,
    /// The Cluster and its machines.
    ForAll,
}

#[derive(Default)]
pub(super) struct Prober {
    health: Mutex<Health>,
}

impl Prober {
    pub(super) fn health(&self) -> Health {
        *self.lock()
    }

    pub(super) async fn run(self: Arc<Self>, cluster: ClusterKey, client: Client, signals: Signals) {
        loop {
            let success = responds(&client).await;
            let news = self.lock().count(success, Timestamp::now());
            if news != News::None {
                signals.health.send(&cluster);
            }
            if news == News::ForAll {
                signals.nodes.send(&ChangedNode::all(cluster.clone()));
            }
            let pause = self.lock().pause();
            tokio::time::sleep(pause).await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Health> {
        // Plain numbers: a panic elsewhere leaves them usable.
        self.health.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

pub(super) async fn responds(client: &Client) -> bool {
    let Ok(request) = Request::get("/").body(Vec::new()) else { return false };
    tokio::time::timeout(TIMEOUT, client.request_text(request)).await.is_ok_and(|answer| answer.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_failures_mark_an_unreached_cluster_as_down() {
        let at = |second| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
        let mut health = Health::default();
        for second in 0..50 {
            assert_ne!(health.count(false, at(second)), News::None);
            assert!(health.is_unknown());
        }
        health.count(false, at(50));
        assert!(!health.is_unknown());
        assert_eq!(health.count(true, at(51)), News::ForAll, "it answers at last");
        assert_eq!(health.count(true, at(52)), News::None, "it still does");
        assert_eq!(health, Health { last_success: Some(at(52)), ..Health::default() });
    }

    /// Probes of a cluster that does not answer, in each minute of an hour, and how often its machines are woken.
    fn an_hour_of_failures(until_failure: i64) -> (Vec<usize>, usize) {
        let (mut health, mut second, mut wake_ups) = (Health::default(), 0, 0);
        let mut probes = vec![0; 60];
        while second < 3600 {
            let now = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
            probes[usize::try_from(second / 60).expect("a minute")] += 1;
            wake_ups += usize::from(health.count(false, now) == News::ForAll);
            second += until_failure + i64::try_from(health.pause().as_secs()).expect("a number");
        }
        (probes, wake_ups)
    }

    #[test]
    fn a_dead_cluster_costs_little() {
        let timeout = i64::try_from(TIMEOUT.as_secs()).expect("a number");
        for (case, until_failure) in [("says nothing", timeout), ("hangs up", 0)] {
            let (probes, wake_ups) = an_hour_of_failures(until_failure);
            assert!(probes.iter().sum::<usize>() < 90, "{case}: {probes:?}");
            assert!(probes[0] < 20, "{case}: it may be about to come up, {probes:?}");
            assert!(probes[10..].iter().all(|probes| *probes <= 2), "{case}: {probes:?}");
            assert!(wake_ups < 10, "{case}: its machines were woken {wake_ups} times");
        }
    }

    #[test]
    fn an_answer_grows_old() {
        let health = Health { last_success: Some(Timestamp::UNIX_EPOCH), failures: 3, failing: None };
        let later = |seconds| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        assert!(health.answered_within(SignedDuration::from_secs(50), later(50)));
        assert!(!health.answered_within(SignedDuration::from_secs(50), later(51)));
    }
}
