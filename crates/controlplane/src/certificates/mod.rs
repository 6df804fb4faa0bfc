//! What a cluster is made from and kept by: CAs, service account keys, the token to join with, and the key that plans
//! are signed with. Made before the first machine starts, and never again.

mod changed;
mod decide;
mod make;

use capstan_api::controlplane::CapstanControlPlane;
use capstan_controller::error::{Doing as _, Error, Result};
use capstan_controller::secrets::{self, Purpose, pair, plan_key};
use capstan_controller::{identity, owners};
use capstan_distro::{Certificates, KeyPair};
use capstan_plan::{Epoch, SecretText, SigningKey};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use std::collections::BTreeMap;

pub(crate) use changed::{KeyDigests, changed, digests};
pub(crate) use decide::{Decision, NEEDED, decide};
pub(crate) use make::{MakeError, Pair, client};

/// Everything a cluster is kept by, as it is used.
pub(crate) struct Keys {
    pub(crate) certificates: Certificates,
    pub(crate) token: SecretText,
    pub(crate) signing: SigningKey,
    pub(crate) epoch: Epoch,
}

impl Keys {
    /// Reads what [`decide`] has found to be complete.
    pub(crate) fn read(found: &BTreeMap<Purpose, Secret>, cluster: &str) -> Result<Self> {
        let get = |purpose: Purpose, key: &str| {
            found.get(&purpose).and_then(|secret| secrets::get(secret, key)).ok_or_else(|| {
                Error::user(format!("Secret {}", purpose.secret_name(cluster)), format!("has no key {key}"))
            })
        };
        let bytes = |purpose, key| get(purpose, key).map(|bytes| bytes.to_vec().into());
        let pair = |purpose| {
            Ok::<_, Error>(KeyPair {
                certificate: bytes(purpose, pair::CERTIFICATE)?,
                key: bytes(purpose, pair::KEY)?,
            })
        };
        let token = std::str::from_utf8(get(Purpose::Token, secrets::VALUE)?).map_err(|_| {
            Error::user(format!("Secret {}", Purpose::Token.secret_name(cluster)), "must be text")
        })?;
        let signing = SigningKey::from_pkcs8(get(Purpose::PlanKey, plan_key::PRIVATE)?).map_err(|error| {
            Error::user(format!("Secret {}", Purpose::PlanKey.secret_name(cluster)), error.to_string())
        })?;
        let epoch = found.get(&Purpose::PlanKey).map_or(FIRST_EPOCH, epoch);
        Ok(Self {
            certificates: Certificates {
                ca: pair(Purpose::Ca)?,
                etcd: pair(Purpose::Etcd)?,
                proxy: pair(Purpose::Proxy)?,
                service_accounts: pair(Purpose::ServiceAccounts)?,
            },
            token: SecretText::new(token),
            signing,
            epoch: Epoch(epoch),
        })
    }
}

const FIRST_EPOCH: u64 = 1;

/// What goes into the Secret with the plan key so that this plane speaks, if it does not yet: its name, and the next
/// epoch if another plane has spoken before. In one write, so that nobody speaks for this plane in the old epoch.
pub(crate) fn take_over(key: &Secret, plane: &str) -> Option<[(&'static str, Vec<u8>); 2]> {
    let spoke = secrets::get(key, plan_key::PLANE);
    if spoke == Some(plane.as_bytes()) {
        return None;
    }
    let epoch = epoch(key);
    // Nobody has said where it was made: here.
    let next = if spoke.is_some() { epoch.saturating_add(1) } else { epoch };
    Some([(plan_key::EPOCH, next.to_string().into_bytes()), (plan_key::PLANE, plane.as_bytes().to_vec())])
}

fn epoch(key: &Secret) -> u64 {
    let text = secrets::get(key, plan_key::EPOCH).and_then(|bytes| std::str::from_utf8(bytes).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(FIRST_EPOCH)
}

/// Makes one of the Secrets, unless somebody else has.
pub(crate) async fn create(
    api: &Api<Secret>,
    owner: &CapstanControlPlane,
    namespace: &str,
    cluster: &str,
    purpose: Purpose,
    now: Timestamp,
) -> Result<()> {
    let name = purpose.secret_name(cluster);
    let doing = || format!("cannot make Secret {namespace}/{name}");
    let data = contents(purpose, now).map_err(|error| Error::transient(doing(), error))?;
    let mut secret = secrets::build(namespace, cluster, name.clone(), data);
    secret.metadata.owner_references = owners::controller(owner).map(|owner| vec![owner]);
    match api.create(&PostParams::default(), &secret).await {
        // Made by another replica, or by the user just now: that one counts.
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        made => made.map(|_| ()).doing(doing),
    }
}

type Data = Vec<(&'static str, Vec<u8>)>;

pub(crate) fn contents(purpose: Purpose, now: Timestamp) -> std::result::Result<Data, MakeError> {
    let pair_of = |pair: Pair| {
        vec![(pair::CERTIFICATE, pair.certificate.into_bytes()), (pair::KEY, pair.key.into_bytes())]
    };
    Ok(match purpose {
        Purpose::Ca => pair_of(make::authority("kubernetes", now)?),
        Purpose::Etcd => pair_of(make::authority("etcd-ca", now)?),
        Purpose::Proxy => pair_of(make::authority("front-proxy-ca", now)?),
        Purpose::ServiceAccounts => pair_of(make::signing_pair()?),
        Purpose::Token | Purpose::Kubeconfig => {
            vec![(secrets::VALUE, identity::random_secret().into_bytes())]
        }
        Purpose::PlanKey => {
            let key = SigningKey::generate().map_err(|_| MakeError::Key)?;
            let private = key.to_pkcs8().map_err(|_| MakeError::Key)?;
            vec![
                (plan_key::PRIVATE, private),
                (plan_key::PUBLIC, key.public().as_bytes().to_vec()),
                (plan_key::EPOCH, FIRST_EPOCH.to_string().into_bytes()),
            ]
        }
    })
}

/// A CA for the tests of others.
#[cfg(test)]
pub(crate) fn tests_ca(now: Timestamp) -> Secret {
    let data = contents(Purpose::Ca, now).expect("a CA");
    secrets::build("default", "c", "c-ca".to_owned(), data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(data: &[(&'static str, &str)]) -> Secret {
        let data = data.iter().map(|(key, value)| (*key, value.as_bytes().to_vec()));
        secrets::build("default", "c", "c-plan-key".to_owned(), data)
    }

    #[test]
    fn each_plane_that_takes_over_speaks_in_a_later_epoch() {
        let taken = |data: &[(&'static str, &str)]| {
            let [(_, epoch), (_, plane)] = take_over(&key(data), "here")?;
            Some((String::from_utf8(epoch).expect("text"), String::from_utf8(plane).expect("text")))
        };
        let here = |epoch: &str| Some((epoch.to_owned(), "here".to_owned()));
        assert_eq!(taken(&[]), here("1"));
        assert_eq!(taken(&[("epoch", "4")]), here("4"));
        assert_eq!(taken(&[("epoch", "4"), ("plane", "here")]), None);
        assert_eq!(taken(&[("epoch", "4"), ("plane", "there")]), here("5"));
        assert_eq!(taken(&[("plane", "there")]), here("2"));
    }
}
