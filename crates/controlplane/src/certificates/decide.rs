//! Which Secrets of a cluster are missing, whether they may be created, and in which epoch plans are signed. Pure.

use capstan_controller::secrets::{self, Purpose, pair, plan_key};
use k8s_openapi::api::core::v1::Secret;
use std::collections::BTreeMap;

/// The Secrets that a cluster needs before its first machine gets a plan.
pub(crate) const NEEDED: [Purpose; 6] =
    [Purpose::Ca, Purpose::Etcd, Purpose::Proxy, Purpose::ServiceAccounts, Purpose::Token, Purpose::PlanKey];

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// All Secrets exist.
    Complete,
    /// These Secrets must be created.
    Make(Vec<Purpose>),
    /// An existing Secret cannot be used, and why.
    Refuse(String),
}

/// Missing Secrets are created only before the cluster is initialized: afterwards its machines have the originals, and
/// other ones would lock them out. Secrets that the user provides are used as they are.
pub(crate) fn decide(found: &BTreeMap<Purpose, Secret>, cluster: &str, initialized: bool) -> Decision {
    let mut missing = Vec::new();
    for purpose in NEEDED {
        let name = purpose.secret_name(cluster);
        let Some(secret) = found.get(&purpose) else {
            missing.push(purpose);
            continue;
        };
        for key in keys(purpose) {
            if secrets::get(secret, key).is_none() {
                return Decision::Refuse(format!(
                    "Secret {name} has no key {key}: add it, or delete the Secret before the cluster begins"
                ));
            }
        }
    }
    match missing.first() {
        None => Decision::Complete,
        Some(purpose) if initialized => Decision::Refuse(format!(
            "Secret {} is missing and cannot be made again, because machines hold the original: restore it from a backup",
            purpose.secret_name(cluster)
        )),
        Some(_) => Decision::Make(missing),
    }
}

pub(super) fn keys(purpose: Purpose) -> &'static [&'static str] {
    match purpose {
        Purpose::Ca | Purpose::Etcd | Purpose::Proxy | Purpose::ServiceAccounts => {
            &[pair::CERTIFICATE, pair::KEY]
        }
        Purpose::PlanKey => &[plan_key::PRIVATE, plan_key::PUBLIC],
        Purpose::Token | Purpose::Kubeconfig => &[secrets::VALUE],
    }
}

/// The epoch of a plane that creates the plan key.
pub(super) const FIRST_EPOCH: u64 = 1;

/// The fields of the plan key Secret to write so that this plane signs plans, if they differ: its name, and the next
/// epoch if another plane has signed before. Both are in one write, so that no plan of this plane is signed in the old
/// epoch.
pub(crate) fn take_over(key: &Secret, plane: &str) -> Option<[(&'static str, Vec<u8>); 2]> {
    let spoke = secrets::get(key, plan_key::PLANE);
    if spoke == Some(plane.as_bytes()) {
        return None;
    }
    let epoch = epoch(key);
    // No plane is recorded: the key was generated on this one.
    let next = if spoke.is_some() { epoch.saturating_add(1) } else { epoch };
    Some([(plan_key::EPOCH, next.to_string().into_bytes()), (plan_key::PLANE, plane.as_bytes().to_vec())])
}

/// The epoch of a plan key.
pub(super) fn epoch(key: &Secret) -> u64 {
    let text = secrets::get(key, plan_key::EPOCH).and_then(|bytes| std::str::from_utf8(bytes).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(FIRST_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_controller::secrets::build;

    fn all() -> BTreeMap<Purpose, Secret> {
        NEEDED
            .into_iter()
            .map(|purpose| {
                let data = keys(purpose).iter().map(|key| (*key, b"x".to_vec()));
                (purpose, build("default", "c", purpose.secret_name("c"), data))
            })
            .collect()
    }

    fn without(purposes: &[Purpose]) -> BTreeMap<Purpose, Secret> {
        let mut found = all();
        found.retain(|purpose, _| !purposes.contains(purpose));
        found
    }

    #[test]
    fn what_is_missing_is_made_before_the_cluster_begins_and_never_after() {
        assert_eq!(decide(&BTreeMap::new(), "c", false), Decision::Make(NEEDED.to_vec()));
        assert_eq!(decide(&all(), "c", false), Decision::Complete);
        assert_eq!(decide(&all(), "c", true), Decision::Complete);
        let gap = without(&[Purpose::Etcd, Purpose::Token]);
        assert_eq!(decide(&gap, "c", false), Decision::Make(vec![Purpose::Etcd, Purpose::Token]));
        for purpose in NEEDED {
            let Decision::Refuse(why) = decide(&without(&[purpose]), "c", true) else {
                panic!("{purpose:?}")
            };
            assert!(why.contains(&purpose.secret_name("c")), "{why}");
        }
    }

    #[test]
    fn half_a_secret_is_refused_by_name() {
        let mut found = all();
        found.insert(Purpose::Ca, build("default", "c", "c-ca".to_owned(), [("tls.crt", b"x".to_vec())]));
        for initialized in [false, true] {
            let Decision::Refuse(why) = decide(&found, "c", initialized) else { panic!("{initialized}") };
            assert!(why.starts_with("Secret c-ca has no key tls.key"), "{why}");
        }
    }

    fn key(data: &[(&'static str, &str)]) -> Secret {
        let data = data.iter().map(|(key, value)| (*key, value.as_bytes().to_vec()));
        build("default", "c", "c-plan-key".to_owned(), data)
    }

    #[test]
    fn each_plane_that_takes_over_speaks_in_a_later_epoch() {
        let taken = |data: &[(&'static str, &str)]| {
            let [(_, epoch), (_, plane)] = take_over(&key(data), "here")?;
            Some((String::from_utf8(epoch).expect("text"), String::from_utf8(plane).expect("text")))
        };
        let taken_here = |epoch: &str| Some((epoch.to_owned(), "here".to_owned()));
        assert_eq!(taken(&[]), taken_here("1"));
        assert_eq!(taken(&[("epoch", "4")]), taken_here("4"));
        assert_eq!(taken(&[("epoch", "4"), ("plane", "here")]), None);
        assert_eq!(taken(&[("epoch", "4"), ("plane", "there")]), taken_here("5"));
        assert_eq!(taken(&[("plane", "there")]), taken_here("2"));
    }
}
