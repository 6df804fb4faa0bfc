//! Leader election: one of several replicas runs the controllers, and the others wait.
//!
//! The leader is recorded in a Lease, which is written by compare and swap. The leader renews the Lease. Another candidate
//! acquires it when it was not renewed for the duration that it names, measured by the candidate's own clock: clocks of two
//! machines are never compared. The leader stops well before that, so there may be a time without a leader, but never two
//! leaders.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, PostParams};
use kube::core::ObjectMeta;
use kube::{Client, ResourceExt as _};
use std::time::{Duration, Instant};

use crate::error::{Doing as _, Result, chain};
use crate::names;

/// Periods of leader election.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// A Lease that was not renewed for this time may be acquired by another candidate.
    pub lease: Duration,
    /// A leader that could not renew for this time stops leading.
    pub give_up: Duration,
    /// The time between two attempts.
    pub retry: Duration,
}

impl Default for Times {
    /// As the managers of Cluster API have it.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            give_up: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// A candidate of a leader election, or the leader.
pub struct Candidate {
    leases: Api<Lease>,
    name: String,
    identity: String,
    times: Times,
    /// The Lease as it was read last, and since when it has not changed.
    seen: Option<(Lease, Instant)>,
    /// Start of the last attempt that acquired or renewed the Lease: the renewal may be that old.
    renewed: Instant,
}

/// The next action of a candidate.
#[derive(Clone, Debug, PartialEq)]
enum LeaseAction {
    /// There is no Lease: create it.
    Create(LeaseSpec),
    /// The Lease is held by this candidate, or is free: write it.
    Update(LeaseSpec),
    /// Another candidate holds the Lease.
    Wait,
}

impl Candidate {
    /// A candidate for the Lease of this name. `host` identifies the replica for users.
    pub fn new(client: Client, namespace: &str, name: &str, host: &str, times: Times) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            name: name.to_owned(),
            // A new identity after each start: the controllers of the earlier process have ended.
            identity: format!("{host}_{}{}", names::random_suffix(), names::random_suffix()),
            times,
            seen: None,
            renewed: Instant::now(),
        }
    }

    /// The identity in the Lease.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns when this candidate leads. `asked` is called after the first attempt to which the API server responded.
    pub async fn lead(&mut self, mut asked: impl FnMut() + Send) {
        let mut complaint = None;
        loop {
            let answer = tokio::time::timeout(self.times.give_up, self.attempt()).await;
            match answer {
                Ok(Ok(true)) => return asked(),
                Ok(Ok(false)) => {
                    asked();
                    complaint = None;
                }
                unanswered => {
                    let error_text = unanswered.map_or_else(|late| late.to_string(), failure_text);
                    if complaint.as_ref() != Some(&error_text) {
                        tracing::warn!(error = error_text, "cannot take part in the election; trying again");
                        complaint = Some(error_text);
                    }
                }
            }
            tokio::time::sleep(self.times.retry).await;
        }
    }

    /// Renews the Lease as long as possible, and returns why it no longer can.
    pub async fn keep(&mut self) -> String {
        let mut why = "no answer".to_owned();
        loop {
            tokio::time::sleep(self.times.retry).await;
            let left = self.times.give_up.saturating_sub(self.renewed.elapsed());
            match tokio::time::timeout(left, self.attempt()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => {
                    let holder = self.seen.as_ref().and_then(|(lease, _)| holder(lease));
                    // Another client changed the Lease without acquiring it: try again.
                    if holder != Some(self.identity.as_str()) {
                        return match holder {
                            Some(holder) => format!("it is held by {holder}"),
                            None => "it no longer has a holder".to_owned(),
                        };
                    }
                }
                Ok(answer) => why = failure_text(answer),
                Err(_) => return format!("it could not be renewed for {:?}: {why}", self.times.give_up),
            }
        }
    }

    /// Releases the Lease, so that the next leader need not wait. Call it only when all controllers have stopped.
    pub async fn release(mut self) -> Result<()> {
        let name = self.name.clone();
        let doing = || format!("cannot release Lease {name}");
        let Some((mut lease, _)) = self.seen.take() else { return Ok(()) };
        if holder(&lease) != Some(self.identity.as_str()) {
            return Ok(());
        }
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        self.leases.replace(&self.name, &PostParams::default(), &lease).await.map(|_| ()).doing(doing)
    }

    /// Creates, acquires or renews the Lease if allowed. Returns whether this candidate holds it.
    async fn attempt(&mut self) -> Result<bool> {
        let name = self.name.clone();
        let doing = |what: &str| format!("cannot {what} Lease {name}");
        let begun = Instant::now();
        let found = self.leases.get_opt(&self.name).await.doing(|| doing("read"))?;
        let since = self.note(found.as_ref());
        let action = decide(found.as_ref(), &self.identity, since, &self.times, Timestamp::now());
        let parameters = PostParams::default();
        let written = match (action, found) {
            (LeaseAction::Create(spec), _) => {
                let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                self.leases.create(&parameters, &Lease { metadata, spec: Some(spec) }).await
            }
            (LeaseAction::Update(spec), Some(mut lease)) => {
                lease.spec = Some(spec);
                self.leases.replace(&self.name, &parameters, &lease).await
            }
            _ => return Ok(false),
        };
        match written {
            // Another candidate was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            written => {
                let lease = written.doing(|| doing("write"))?;
                self.seen = Some((lease, Instant::now()));
                self.renewed = begun;
                Ok(true)
            }
        }
    }

    /// The time since the last change of the Lease.
    fn note(&mut self, found: Option<&Lease>) -> Duration {
        let Some(found) = found else {
            self.seen = None;
            return Duration::ZERO;
        };
        match &self.seen {
            Some((seen, since)) if seen.resource_version() == found.resource_version() => since.elapsed(),
            _ => {
                self.seen = Some((found.clone(), Instant::now()));
                Duration::ZERO
            }
        }
    }
}

fn failure_text(answer: Result<bool>) -> String {
    answer.err().map(|error| chain(&error)).unwrap_or_default()
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// What `me` may do about a Lease that has not changed for this time.
fn decide(
    lease: Option<&Lease>,
    me: &str,
    unchanged: Duration,
    times: &Times,
    now: Timestamp,
) -> LeaseAction {
    let seconds = i32::try_from(times.lease.as_secs()).unwrap_or(i32::MAX);
    let now = MicroTime(now);
    let fresh = |transitions: i32| LeaseSpec {
        holder_identity: Some(me.to_owned()),
        lease_duration_seconds: Some(seconds),
        acquire_time: Some(now.clone()),
        renew_time: Some(now.clone()),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    };
    let Some(lease) = lease else { return LeaseAction::Create(fresh(0)) };
    let spec = lease.spec.clone().unwrap_or_default();
    let transitions = spec.lease_transitions.unwrap_or_default();
    match holder(lease) {
        Some(holder) if holder == me => LeaseAction::Update(LeaseSpec {
            lease_duration_seconds: Some(seconds),
            renew_time: Some(now),
            ..spec
        }),
        Some(_) => {
            let lease_seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            match unchanged > lease_seconds.map_or(times.lease, Duration::from_secs) {
                true => LeaseAction::Update(fresh(transitions.saturating_add(1))),
                false => LeaseAction::Wait,
            }
        }
        None => LeaseAction::Update(fresh(transitions.saturating_add(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn lease(holder: Option<&str>, seconds: i32) -> Lease {
        let spec = LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            lease_duration_seconds: Some(seconds),
            acquire_time: Some(MicroTime(Timestamp::UNIX_EPOCH)),
            // Long ago by our clock: that alone must not matter.
            renew_time: Some(MicroTime(Timestamp::UNIX_EPOCH)),
            lease_transitions: Some(3),
            ..LeaseSpec::default()
        };
        Lease { metadata: ObjectMeta::default(), spec: Some(spec) }
    }

    #[test]
    fn a_lease_is_taken_when_it_is_nobodys_or_was_not_renewed() {
        let times = Times::default();
        for (holder, unchanged, takes) in [
            (Some("other"), 0, false),
            (Some("other"), 15, false),
            (Some("other"), 16, true),
            (Some(""), 0, true),
            (None, 0, true),
        ] {
            let unchanged = Duration::from_secs(unchanged);
            let action = decide(Some(&lease(holder, 15)), "me", unchanged, &times, NOW);
            let LeaseAction::Update(spec) = action else {
                assert!(!takes, "{holder:?} {unchanged:?}");
                continue;
            };
            assert!(takes, "{holder:?} {unchanged:?}");
            assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("me"), Some(4)));
            assert_eq!(spec.acquire_time, Some(MicroTime(NOW)));
        }
    }

    #[test]
    fn the_holder_says_how_long_others_wait() {
        let action = |seconds, unchanged| {
            let unchanged = Duration::from_secs(unchanged);
            decide(Some(&lease(Some("other"), seconds)), "me", unchanged, &Times::default(), NOW)
        };
        assert_eq!(action(60, 59), LeaseAction::Wait);
        assert!(matches!(action(1, 2), LeaseAction::Update(_)));
    }

    #[test]
    fn a_renewal_keeps_since_when_and_a_first_lease_is_made() {
        let times = Times::default();
        let LeaseAction::Update(spec) =
            decide(Some(&lease(Some("me"), 15)), "me", Duration::ZERO, &times, NOW)
        else {
            panic!("not renewed");
        };
        assert_eq!(spec.acquire_time, Some(MicroTime(Timestamp::UNIX_EPOCH)));
        assert_eq!((spec.renew_time, spec.lease_transitions), (Some(MicroTime(NOW)), Some(3)));
        assert!(matches!(decide(None, "me", Duration::ZERO, &times, NOW), LeaseAction::Create(_)));
    }

    #[test]
    fn who_leads_gives_up_before_others_may_take_over() {
        let times = Times::default();
        assert!(times.give_up + times.retry < times.lease);
    }
}
