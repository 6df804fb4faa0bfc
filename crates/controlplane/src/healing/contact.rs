//! Since when the agent of a machine has been silent.
//!
//! The agent renews its Lease. The time of a renewal is the time at which this process first saw it, because the clock
//! of the machine may be wrong. So after a restart the silence of an agent is unknown until the limit has passed once.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// Namespace and name of a Cluster.
type Key = (String, String);

/// Shortest pause between two reads of the Leases: silence is counted in minutes.
const LOOK: SignedDuration = SignedDuration::from_secs(30);

/// Longest validity of a Lease that counts. Agents of a large fleet renew their Leases less often.
const LONGEST_VALID: SignedDuration = SignedDuration::from_secs(600);

/// When agents were last seen to renew their Leases.
#[derive(Debug, Default)]
pub(crate) struct Contacts(Mutex<HashMap<Key, Cluster>>);

#[derive(Debug)]
struct Cluster {
    looked: Timestamp,
    /// The last renewal of each machine's Lease.
    machines: BTreeMap<String, Renewal>,
}

#[derive(Debug)]
struct Renewal {
    /// As the Lease says it: tells one renewal from another.
    time: String,
    /// When this process first saw it.
    seen: Timestamp,
    /// For how long it is valid, as the machine says.
    valid: SignedDuration,
}

impl Contacts {
    /// Whether the Leases of a cluster are due to be read again.
    pub(crate) fn is_due(&self, namespace: &str, cluster: &str, now: Timestamp) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&(namespace.to_owned(), cluster.to_owned()));
        known.is_none_or(|known| now.duration_since(known.looked).abs() >= LOOK)
    }

    /// Records the Leases of a cluster.
    pub(crate) fn heard(&self, namespace: &str, cluster: &str, leases: &[Lease], now: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (namespace.to_owned(), cluster.to_owned());
        let mut before = known.remove(&key).map(|known| known.machines).unwrap_or_default();
        let mut machines = BTreeMap::new();
        for lease in leases {
            let Some(spec) = &lease.spec else { continue };
            let (Some(renewed), name) = (&spec.renew_time, lease.name_any()) else { continue };
            let Some(machine) = name.strip_suffix("-agent") else { continue };
            let time = renewed.0.to_string();
            let seen = before.remove(machine).filter(|before| before.time == time).map(|before| before.seen);
            // A machine cannot ask to be missed later than this.
            let valid = SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or(0).into());
            let valid = valid.clamp(SignedDuration::ZERO, LONGEST_VALID);
            machines.insert(machine.to_owned(), Renewal { time, seen: seen.unwrap_or(now), valid });
        }
        known.insert(key, Cluster { looked: now, machines });
    }

    /// The machines of a cluster whose agents have not renewed their Lease for longer than `limit` and for longer than twice the
    /// time that it is valid, and since when. An agent that has never renewed its Lease is not known to be silent.
    pub(crate) fn silent(
        &self,
        namespace: &str,
        cluster: &str,
        limit: SignedDuration,
        now: Timestamp,
    ) -> BTreeMap<String, Timestamp> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&(namespace.to_owned(), cluster.to_owned()));
        let machines = known.into_iter().flat_map(|known| &known.machines);
        let silent = machines.filter(|(_, last)| now.duration_since(last.seen) > limit.max(last.valid * 2));
        silent.map(|(machine, last)| (machine.clone(), last.seen)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lease(renewed: Option<&str>) -> Vec<Lease> {
        let lease =
            json!({"metadata": {"name": "a-agent", "namespace": "n"}, "spec": {"renewTime": renewed}});
        vec![serde_json::from_value(lease).expect("a Lease")]
    }

    #[test]
    fn silence_is_what_this_process_has_heard_nothing_in() {
        let contacts = Contacts::default();
        let limit = SignedDuration::from_secs(60);
        let silent = |lease: Vec<Lease>, second: i64| {
            let at = Timestamp::from_second(second).expect("a time");
            contacts.heard("n", "c", &lease, at);
            contacts.silent("n", "c", limit, at).get("a").map(|since| since.as_second())
        };
        // An old Lease: this process has just begun to listen.
        let (first, second) = ("2020-01-01T00:00:00.000000Z", "2019-01-01T00:00:00.000000Z");
        assert_eq!(silent(lease(Some(first)), 1000), None);
        assert_eq!(silent(lease(Some(first)), 1060), None);
        assert_eq!(silent(lease(Some(first)), 1061), Some(1000));
        // Another value is a sign of life, whatever the machine's clock says.
        assert_eq!(silent(lease(Some(second)), 1062), None);
        assert_eq!(silent(lease(None), 9999), None, "it has never renewed it");
    }

    #[test]
    fn an_agent_that_renews_less_often_is_missed_later() {
        let contacts = Contacts::default();
        let at = |second| Timestamp::from_second(second).expect("a time");
        let lease = |seconds: i32| {
            let spec = json!({"renewTime": "2020-01-01T00:00:00.000000Z", "leaseDurationSeconds": seconds});
            let lease = json!({"metadata": {"name": "a-agent", "namespace": "n"}, "spec": spec});
            vec![serde_json::from_value::<Lease>(lease).expect("a Lease")]
        };
        let limit = SignedDuration::from_secs(60);
        for (case, seconds, last) in [
            ("shorter than the limit", 20, 60),
            ("longer than the limit", 360, 720),
            ("a machine that asks not to be missed", i32::MAX, 1200),
            ("no validity", -1, 60),
        ] {
            contacts.heard("n", "c", &lease(seconds), at(0));
            let is_silent = |second| !contacts.silent("n", "c", limit, at(second)).is_empty();
            assert!(!is_silent(last) && is_silent(last + 1), "{case}");
        }
    }

    #[test]
    fn leases_are_not_looked_at_all_the_time() {
        let (contacts, at) = (Contacts::default(), |second| Timestamp::from_second(second).expect("a time"));
        assert!(contacts.is_due("n", "c", at(0)));
        contacts.heard("n", "c", &[], at(0));
        assert!(!contacts.is_due("n", "c", at(29)) && contacts.is_due("n", "c", at(30)));
        assert!(contacts.is_due("n", "other", at(0)));
    }
}
