//! Replaces the key that signs plans, if the user requests it. Pure.
//!
//! It takes four writes, and the process may stop after each:
//!
//! 1. Secret: the next key, beside the current one;
//! 2. CapstanControlPlane: the digest of the next key, because a Secret that changes without a record is rejected;
//! 3. Secret: the next key becomes the current one, with a link that the old key has signed, without the old private key;
//! 4. CapstanControlPlane: the digest of the key that is now the current one.
//!
//! All plans are signed again between the third and the fourth write, and never later: a plan that the old key signs
//! afterwards is not valid. Plans contain the links, so a machine can follow from any earlier key that it trusts.

use capstan_controller::secrets::{self, plan_key};
use capstan_plan::{KeyId, SigningKey, Successions};
use k8s_openapi::api::core::v1::Secret;

use super::changed::{KeyDigests, NEXT_PLAN_KEY, PLAN_KEY};

/// The next write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rotation {
    /// Nothing: no other key is requested.
    Rest,
    /// Nothing yet: the agents of these machines cannot follow to another key.
    Wait(Vec<String>),
    /// Create the next key.
    Begin,
    /// Record these digests.
    Record(KeyDigests),
    /// Sign with the next key from now on.
    Switch,
}

/// The progress of a replacement, for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// The agents of these machines cannot follow to another key.
    Unable(Vec<String>),
    /// The key is being replaced.
    Underway,
    /// These machines do not trust the new key yet.
    Behind(Vec<String>),
    /// Every machine trusts this key.
    Done(KeyId),
}

/// The inputs of the decision.
pub(crate) struct Seen<'a> {
    /// The request, from the user's annotation.
    pub(crate) asked: Option<&'a str>,
    /// The Secret.
    pub(crate) key: &'a Secret,
    /// The recorded digests.
    pub(crate) recorded: &'a KeyDigests,
    /// The digests of the current Secrets.
    pub(crate) now: &'a KeyDigests,
    /// Machines with a plan whose agents cannot follow to another key, by name.
    pub(crate) unable: Vec<String>,
}

/// Whether the key was replaced just now, so that plans which the previous key has signed are signed again.
pub(crate) fn is_switched(recorded: &KeyDigests, now: &KeyDigests) -> bool {
    let next = recorded.get(NEXT_PLAN_KEY);
    next.is_some() && now.get(PLAN_KEY) == next
}

pub(crate) fn decide(seen: Seen<'_>) -> Rotation {
    let (next, announced) = (seen.now.get(NEXT_PLAN_KEY), seen.recorded.get(NEXT_PLAN_KEY));
    if next != announced {
        return Rotation::Record(with_plan_keys(seen.recorded, seen.now));
    }
    if next.is_some() {
        return Rotation::Switch;
    }
    let served = secrets::get(seen.key, plan_key::ROTATION);
    match seen.asked {
        Some(asked) if !asked.is_empty() && served != Some(asked.as_bytes()) => {
            match seen.unable.is_empty() {
                true => Rotation::Begin,
                false => Rotation::Wait(seen.unable),
            }
        }
        _ => Rotation::Rest,
    }
}

/// The recorded digests with those of the current plan keys. Other digests are kept: they may differ on purpose.
fn with_plan_keys(recorded: &KeyDigests, now: &KeyDigests) -> KeyDigests {
    let mut digests = recorded.clone();
    for name in [PLAN_KEY, NEXT_PLAN_KEY] {
        match now.get(name) {
            Some(digest) => digests.insert(name.to_owned(), digest.clone()),
            None => digests.remove(name),
        };
    }
    digests
}

/// The links of a Secret; none if they cannot be read. Then no plan that the old key has signed can be verified.
pub(super) fn successions(key: &Secret) -> Successions {
    let bytes = secrets::get(key, plan_key::SUCCESSIONS).unwrap_or_default();
    Successions::from_bytes(bytes).unwrap_or_default()
}

/// A key of the Secret, and its new value; `None` removes it.
type Change = (&'static str, Option<Vec<u8>>);

/// The content of the Secret once the next key is the current one; `None` if one of the keys cannot be read.
pub(crate) fn switched(key: &Secret) -> Option<[Change; 4]> {
    let read = |field| SigningKey::from_pkcs8(secrets::get(key, field)?).ok();
    let (old, new) = (read(plan_key::PRIVATE)?, read(plan_key::NEXT)?);
    let links = successions(key).followed_by(&old, new.public());
    Some([
        (plan_key::PRIVATE, secrets::get(key, plan_key::NEXT).map(<[u8]>::to_vec)),
        (plan_key::PUBLIC, Some(new.public().as_bytes().to_vec())),
        (plan_key::SUCCESSIONS, Some(links.to_bytes())),
        (plan_key::NEXT, None),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::changed::{changed, digests};
    use super::super::decide::NEEDED;
    use super::*;
    use capstan_controller::secrets::{Purpose, build};
    use k8s_openapi::ByteString;
    use std::collections::BTreeMap;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_seed(&[seed; 32])
    }

    /// A cluster's Secrets, and what is recorded of them.
    struct Cluster {
        secrets: BTreeMap<Purpose, Secret>,
        recorded: KeyDigests,
    }

    impl Cluster {
        fn new() -> Self {
            let plan = [
                (plan_key::PRIVATE, key(1).to_pkcs8().unwrap()),
                (plan_key::PUBLIC, key(1).public().as_bytes().to_vec()),
            ];
            let secret = |purpose: Purpose| {
                let name = purpose.secret_name("c");
                match purpose {
                    Purpose::PlanKey => build("default", "c", name, plan.clone()),
                    _ => {
                        build("default", "c", name, [("tls.crt", b"x".to_vec()), ("tls.key", b"y".to_vec())])
                    }
                }
            };
            let secrets: BTreeMap<_, _> = NEEDED.map(|purpose| (purpose, secret(purpose))).into();
            let recorded = digests(&secrets);
            Self { secrets, recorded }
        }

        fn key(&self) -> &Secret {
            &self.secrets[&Purpose::PlanKey]
        }

        fn write(&mut self, change: impl IntoIterator<Item = Change>) {
            let data = self.secrets.get_mut(&Purpose::PlanKey).and_then(|key| key.data.as_mut()).unwrap();
            for (field, value) in change {
                match value {
                    Some(value) => data.insert(field.to_owned(), ByteString(value)),
                    None => data.remove(field),
                };
            }
        }

        fn next(&self, asked: Option<&str>, unable: &[&str]) -> Rotation {
            let unable = unable.iter().map(|&name| name.to_owned()).collect();
            let now = digests(&self.secrets);
            assert_eq!(changed(&self.recorded, &now, "c"), None, "the change was not announced");
            decide(Seen { asked, key: self.key(), recorded: &self.recorded, now: &now, unable })
        }
    }

    #[test]
    fn a_key_is_replaced_in_four_writes_and_once_for_each_request() {
        let mut cluster = Cluster::new();
        assert_eq!(cluster.next(None, &[]), Rotation::Rest);
        assert_eq!(cluster.next(Some("monday"), &["w0"]), Rotation::Wait(vec!["w0".to_owned()]));
        assert_eq!(cluster.next(Some("monday"), &[]), Rotation::Begin);
        cluster.write([
            (plan_key::NEXT, Some(key(2).to_pkcs8().unwrap())),
            (plan_key::ROTATION, Some(b"monday".to_vec())),
        ]);
        let Rotation::Record(announced) = cluster.next(Some("monday"), &[]) else { panic!("not announced") };
        cluster.recorded = announced;
        assert_eq!(cluster.next(Some("monday"), &[]), Rotation::Switch);
        assert!(!is_switched(&cluster.recorded, &digests(&cluster.secrets)));
        let switched = switched(cluster.key()).unwrap();
        cluster.write(switched);
        assert!(is_switched(&cluster.recorded, &digests(&cluster.secrets)));
        let Rotation::Record(recorded) = cluster.next(Some("monday"), &[]) else { panic!("not recorded") };
        assert_eq!(recorded.keys().collect::<Vec<_>>(), Cluster::new().recorded.keys().collect::<Vec<_>>());
        cluster.recorded = recorded;
        assert!(!is_switched(&cluster.recorded, &digests(&cluster.secrets)), "old signatures count no more");
        assert_eq!(cluster.next(Some("monday"), &[]), Rotation::Rest, "the request is served");
        assert_eq!(cluster.next(Some("tuesday"), &[]), Rotation::Begin);
        assert_eq!(successions(cluster.key()).heir(key(1).public()), key(2).public());
        assert_eq!(secrets::get(cluster.key(), plan_key::PRIVATE), Some(&key(2).to_pkcs8().unwrap()[..]));
        assert_eq!(secrets::get(cluster.key(), plan_key::NEXT), None);
    }

    /// Another key without the four writes is a mistake of a user, and stops everything.
    #[test]
    fn a_key_that_was_not_announced_is_refused() {
        let mut cluster = Cluster::new();
        cluster.write([
            (plan_key::PRIVATE, Some(key(2).to_pkcs8().unwrap())),
            (plan_key::PUBLIC, Some(key(2).public().as_bytes().to_vec())),
        ]);
        assert!(changed(&cluster.recorded, &digests(&cluster.secrets), "c").is_some());
    }

    #[test]
    fn a_next_key_that_vanishes_is_forgotten() {
        let mut cluster = Cluster::new();
        cluster.write([
            (plan_key::NEXT, Some(key(2).to_pkcs8().unwrap())),
            (plan_key::ROTATION, Some(b"monday".to_vec())),
        ]);
        let Rotation::Record(announced) = cluster.next(Some("monday"), &[]) else { panic!("not announced") };
        cluster.recorded = announced;
        cluster.write([(plan_key::NEXT, None)]);
        let Rotation::Record(digests) = cluster.next(Some("monday"), &[]) else { panic!("not forgotten") };
        assert_eq!(digests, Cluster::new().recorded);
    }
}
