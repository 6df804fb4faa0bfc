//! The Secrets of a cluster that several controllers must find: their names, type, labels and keys.

use capstan_api::meta::labels;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use std::collections::BTreeMap;

use crate::names;

/// Type of the Secrets that the contract knows.
pub const CLUSTER_SECRET: &str = "cluster.x-k8s.io/secret";

/// Keys of a certificate or a key pair.
pub mod pair {
    /// The certificate, or the public key where there is no certificate.
    pub const CERTIFICATE: &str = "tls.crt";
    /// The private key.
    pub const KEY: &str = "tls.key";
}

/// Keys of the Secret with the key that plans are signed with.
pub mod plan_key {
    /// The Ed25519 key in PKCS#8. Read by planners only.
    pub const PRIVATE: &str = "private";
    /// The 32 bytes of its public half, which machines are given to know their manager by.
    pub const PUBLIC: &str = "public";
    /// Which manager speaks, in decimal. Grows when another one takes over.
    pub const EPOCH: &str = "epoch";
    /// The plane on which it speaks: see [`plane`](crate::plane). On another one the key has been moved.
    pub const PLANE: &str = "plane";
}

/// Key of Secrets that hold one thing.
pub const VALUE: &str = "value";

/// What a Secret of a cluster is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The cluster's CA.
    Ca,
    /// The CA of etcd.
    Etcd,
    /// The CA of the front proxy.
    Proxy,
    /// The key pair that service account tokens are signed with.
    ServiceAccounts,
    /// What a machine shows to join.
    Token,
    /// The key that plans are signed with.
    PlanKey,
    /// How the cluster is reached.
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

/// What stands under a key, if anything does.
pub fn get<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    let value = secret.data.as_ref()?.get(key)?;
    (!value.0.is_empty()).then_some(value.0.as_slice())
}
