//! The Secrets of a cluster that several controllers must find: their names, type, labels and keys.

use capstan_api::meta::labels;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use std::collections::BTreeMap;

use crate::names;

/// Type of the Secrets in the Cluster API contract.
pub const CLUSTER_SECRET: &str = "cluster.x-k8s.io/secret";

/// Keys of a Secret with a certificate or a key pair.
pub mod pair {
    /// The certificate, or the public key if there is no certificate.
    pub const CERTIFICATE: &str = "tls.crt";
    /// The private key.
    pub const KEY: &str = "tls.key";
}

/// Keys of the Secret with the signing key for plans.
pub mod plan_key {
    /// The Ed25519 key in PKCS#8. Read by planners only.
    pub const PRIVATE: &str = "private";
    /// The 32 bytes of the public key, with which agents verify plans.
    pub const PUBLIC: &str = "public";
    /// The epoch of the manager, in decimal. It increases when another plane takes over.
    pub const EPOCH: &str = "epoch";
    /// The plane that signs with the key: see [`plane`](crate::plane). On another plane, the key was moved there and
    /// is not taken over yet.
    pub const PLANE: &str = "plane";
    /// The next key in PKCS#8, while one replaces the other.
    pub const NEXT: &str = "next-private";
    /// How keys have followed each other: see `capstan_plan::Successions`. If absent, the key was never replaced.
    pub const SUCCESSIONS: &str = "successions";
    /// The last request for another key that was served: the value of the annotation.
    pub const ROTATION: &str = "rotation";
}

/// Key of Secrets with a single value.
pub const VALUE: &str = "value";

/// Key of the Secret with tokens: the token with which workers join. [`VALUE`] is that of servers. A cluster that began
/// before workers had a token of their own has no such key.
pub const AGENT_TOKEN: &str = "agent";

/// The purpose of a Secret of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The cluster CA.
    Ca,
    /// The etcd CA.
    Etcd,
    /// The front proxy CA.
    Proxy,
    /// The signing key pair for service account tokens.
    ServiceAccounts,
    /// The tokens with which machines join.
    Token,
    /// The signing key for plans.
    PlanKey,
    /// The kubeconfig.
    Kubeconfig,
}

impl Purpose {
    /// The name of the Secret.
    pub fn secret_name(self, cluster: &str) -> String {
        let suffix = match self {
            Self::Ca => "ca",
            Self::Etcd => "etcd",
            Self::Proxy => "proxy",
            Self::ServiceAccounts => "sa",
            Self::Token => "token",
            Self::PlanKey => "plan-key",
            Self::Kubeconfig => "kubeconfig",
        };
        format!("{cluster}-{suffix}")
    }
}

/// A Secret of a cluster, without owners.
pub fn build(
    namespace: &str,
    cluster: &str,
    name: String,
    data: impl IntoIterator<Item = (&'static str, Vec<u8>)>,
) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(labels::CLUSTER_NAME.to_owned(), names::label_value(cluster))])),
            ..Default::default()
        },
        type_: Some(CLUSTER_SECRET.to_owned()),
        data: Some(data.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value))).collect()),
        ..Default::default()
    }
}

/// The value of a key, if the Secret has it.
pub fn get<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    let value = secret.data.as_ref()?.get(key)?;
    (!value.0.is_empty()).then_some(value.0.as_slice())
}
