//! Since when nothing was heard of a machine's agent.
//!
//! The agent renews its Lease. When that was is told by this process's own clock, from the moment it first saw the Lease as
//! it is: the machine's clock may be wrong, and the machine is not to be believed about it. So after a restart nothing is
//! known until the limit has passed once more.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// Namespace and name of a Lease.
type Key = (String, String);

/// When Leases were last seen to change.
#[derive(Debug, Default)]
pub(crate) struct Contacts(Mutex<HashMap<Key, (String, Timestamp)>>);

impl Contacts {
    /// Takes note of the Leases of a cluster, and gives the machines that were not heard of for longer than `limit`, and
    /// since when. An agent that has never renewed its Lease is not known to be silent.
    pub(crate) fn silent(
        &self,
        leases: &[Lease],
        limit: SignedDuration,
        now: Timestamp,
    ) -> BTreeMap<String, Timestamp> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut silent = BTreeMap::new();
        for lease in leases {
            let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
            let (Some(renewed), name) = (renewed, lease.name_any()) else { continue };
            let Some(machine) = name.strip_suffix("-agent") else { continue };
            let renewed = renewed.0.to_string();
            let key = (lease.namespace().unwrap_or_default(), name.clone());
            let seen = known.entry(key).or_insert_with(|| (renewed.clone(), now));
            if seen.0 != renewed {
                *seen = (renewed, now);
            }
            if now.duration_since(seen.1) > limit {
                silent.insert(machine.to_owned(), seen.1);
            }
        }
        silent
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
            contacts.silent(&lease, limit, at).get("a").map(|since| since.as_second())
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
}
