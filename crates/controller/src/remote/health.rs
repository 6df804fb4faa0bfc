//! Whether a workload cluster answers: asked every few seconds.

use http::Request;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{ChangedNode, ClusterKey, Signals};

const INTERVAL: Duration = Duration::from_secs(10);
/// Until the first answer, everybody waits for it: worth asking more often.
const FIRST_INTERVAL: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(5);

/// This many failures before the first answer, and nobody speaks of a connection that is only slow to come up any
/// more. It is the time that five ordinary probes take.
const ENOUGH_FAILURES: u32 = 50;

/// What the probes of a cluster have found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// When the cluster last answered; none if it never has.
    pub last_success: Option<Timestamp>,
    /// Failures since then.
    pub failures: u32,
}

impl Health {
    /// Nothing is known yet: there was no answer, and it was not asked often enough to say that there is none.
    pub fn is_unsettled(&self) -> bool {
        self.last_success.is_none() && self.failures < ENOUGH_FAILURES
    }

    /// Whether it has answered within this time.
    pub fn answered_within(&self, grace: SignedDuration, now: Timestamp) -> bool {
        self.last_success.is_some_and(|time| now.duration_since(time) <= grace)
    }

    /// Counts one more probe, and says whether listeners should hear of it: of every failure, because time alone may
    /// have turned it into something worth telling, and of a success only after a failure.
    fn count(&mut self, success: bool, now: Timestamp) -> bool {
        if !success {
            self.failures = self.failures.saturating_add(1);
            return true;
        }
        let is_news = self.last_success.is_none() || self.failures > 0;
        *self = Self { last_success: Some(now), failures: 0 };
        is_news
    }
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
            let success = answers(&client).await;
            if self.lock().count(success, Timestamp::now()) {
                signals.health.tell(&cluster);
                signals.nodes.tell(&ChangedNode::all(cluster.clone()));
            }
            let has_answered = self.lock().last_success.is_some();
            tokio::time::sleep(if has_answered { INTERVAL } else { FIRST_INTERVAL }).await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Health> {
        // Plain numbers: a panic elsewhere has not broken them.
        self.health.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

pub(super) async fn answers(client: &Client) -> bool {
    let Ok(request) = Request::get("/").body(Vec::new()) else { return false };
    tokio::time::timeout(TIMEOUT, client.request_text(request)).await.is_ok_and(|answer| answer.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_failures_settle_what_no_success_has() {
        let now = Timestamp::UNIX_EPOCH;
        let mut health = Health::default();
        for _ in 1..ENOUGH_FAILURES {
            assert!(health.count(false, now));
            assert!(health.is_unsettled());
        }
        assert!(health.count(false, now));
        assert!(!health.is_unsettled());
        assert!(health.count(true, now), "it answers at last");
        assert!(!health.count(true, now), "it still does");
        assert_eq!(health, Health { last_success: Some(now), failures: 0 });
    }

    #[test]
    fn an_answer_grows_old() {
        let health = Health { last_success: Some(Timestamp::UNIX_EPOCH), failures: 3 };
        let later = |seconds| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        assert!(health.answered_within(SignedDuration::from_secs(50), later(50)));
        assert!(!health.answered_within(SignedDuration::from_secs(50), later(51)));
    }
}
