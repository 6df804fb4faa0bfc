//! Reads the certificates and keys of a cluster from its Secrets.

use capstan_controller::error::{Error, Result};
use capstan_controller::secrets::{self, Purpose, pair, plan_key};
use capstan_distro::{Certificates, KeyPair};
use capstan_plan::{Epoch, SecretText, SigningKey, Successions};
use k8s_openapi::api::core::v1::Secret;
use std::collections::BTreeMap;

use super::decide::{FIRST_EPOCH, epoch};
use super::rotation::successions;
use super::tokens::{JoinTokens, Separation, agent_token};

/// The certificates and keys of a cluster, parsed.
pub(crate) struct Keys {
    pub(crate) certificates: Certificates,
    pub(crate) tokens: JoinTokens,
    pub(crate) signing: SigningKey,
    /// The chain of plan keys.
    pub(crate) successions: Successions,
    pub(crate) epoch: Epoch,
}

impl Keys {
    /// Reads the Secrets that [`decide`](super::decide()) found to be complete.
    pub(crate) fn read(
        found: &BTreeMap<Purpose, Secret>,
        cluster: &str,
        separation: Separation,
    ) -> Result<Self> {
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
        let token = |bytes| {
            let text = std::str::from_utf8(bytes).map(SecretText::new);
            text.map_err(|_| {
                Error::user(format!("Secret {}", Purpose::Token.secret_name(cluster)), "must be text")
            })
        };
        let agent = found.get(&Purpose::Token).and_then(agent_token).map(token).transpose()?;
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
            tokens: JoinTokens { server: token(get(Purpose::Token, secrets::VALUE)?)?, agent, separation },
            signing,
            successions: found.get(&Purpose::PlanKey).map(successions).unwrap_or_default(),
            epoch: Epoch(epoch),
        })
    }
}
