//! The kubeconfig of a cluster whose control plane has no provider. Everywhere else the provider writes it.

use capstan_api::core::Cluster;
use capstan_api::meta::{ApiEndpoint, labels};
use capstan_controller::error::Doing as _;
use capstan_controller::{Error, Next, Result, owners};
use capstan_pki::issue::{self, Identity, utc_date};
use jiff::{Timestamp, ToSpan as _};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{PartialObjectMeta, PostParams};
use kube::core::ObjectMeta;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyUsagePurpose};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::Core;

/// Pause before the next reconcile while the user has not provided the Secret with the CA: it triggers no event.
const UNTIL_THERE_IS_A_CA: Duration = Duration::from_secs(30);
const VALID_DAYS: i64 = 365;

/// Creates the Secret, unless it exists, another controller must create it, or the endpoint is not known yet.
pub(in crate::cluster) async fn ensure(core: &Core, cluster: &Cluster) -> Result<Next> {
    let endpoint = cluster.spec.control_plane_endpoint.as_ref().filter(|endpoint| endpoint.is_valid());
    let (Some(endpoint), None) = (endpoint, &cluster.spec.control_plane_ref) else {
        return Ok(Next::Changed);
    };
    let namespace = cluster.namespace().unwrap_or_default();
    let name = cluster.name_any();
    // Users may bring one without the label that the cache goes by: that it is not there is known by a live read only.
    let known = core.caches.beside_clusters::<PartialObjectMeta<Secret>>(&namespace);
    if known.peek(&namespace, &format!("{name}-kubeconfig")).await?.is_some() {
        return Ok(Next::Changed);
    }
    let secrets = core.api::<Secret>(&namespace);
    let read = |what: &str| format!("cannot read Secret {namespace}/{name}-{what}");
    if secrets.get_opt(&format!("{name}-kubeconfig")).await.doing(|| read("kubeconfig"))?.is_some() {
        return Ok(Next::Changed);
    }
    let Some(ca) = secrets.get_opt(&format!("{name}-ca")).await.doing(|| read("ca"))? else {
        return Ok(Next::After(UNTIL_THERE_IS_A_CA));
    };
    let authority = ca_of(&ca).ok_or_else(|| {
        Error::user(format!("Secret {namespace}/{name}-ca"), "needs tls.crt and tls.key as PEM")
    })?;
    let text = kubeconfig(&name, endpoint, &authority, core.now()).map_err(|error| {
        Error::transient(format!("cannot make a kubeconfig for Cluster {namespace}/{name}"), error)
    })?;
    match secrets.create(&PostParams::default(), &secret(cluster, text)).await {
        // Another process was faster.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Next::Changed),
        created => created
            .map(|_| Next::Changed)
            .doing(|| format!("cannot create Secret {namespace}/{name}-kubeconfig")),
    }
}

fn ca_of(secret: &Secret) -> Option<Identity> {
    let text = |key: &str| String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok();
    Some(Identity { certificate: text("tls.crt")?, key: text("tls.key")? })
}

fn secret(cluster: &Cluster, kubeconfig: String) -> Secret {
    let name = cluster.name_any();
    Secret {
        metadata: ObjectMeta {
            name: Some(format!("{name}-kubeconfig")),
            namespace: cluster.namespace(),
            labels: Some(BTreeMap::from([(labels::CLUSTER_NAME.to_owned(), name)])),
            owner_references: owners::plain(cluster).map(|owner| vec![owner]),
            ..Default::default()
        },
        type_: Some("cluster.x-k8s.io/secret".to_owned()),
        data: Some(BTreeMap::from([("value".to_owned(), ByteString(kubeconfig.into_bytes()))])),
        ..Default::default()
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A kubeconfig for an administrator, with a new key and a certificate of the cluster's own authority.
fn kubeconfig(
    name: &str,
    endpoint: &ApiEndpoint,
    authority: &Identity,
    now: Timestamp,
) -> std::result::Result<String, BoxError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = issue::subject("kubernetes-admin", Some("system:masters"));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    issue::valid_until(&mut params, now, utc_date(now).checked_add(VALID_DAYS.days())?)?;
    let admin = issue::signed(&params, &issue::issuer(authority)?)?;

    let (user, encode) = (format!("{name}-admin"), |text: &str| ByteString(text.as_bytes().to_vec()));
    let context = format!("{user}@{name}");
    let host = endpoint.host.as_deref().unwrap_or_default();
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let server = format!("https://{host}:{}", endpoint.port.unwrap_or_default());
    Ok(serde_saphyr::to_string(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {
            "certificate-authority-data": encode(&authority.certificate),
            "server": server,
        }}],
        "contexts": [{"name": context, "context": {"cluster": name, "user": user}}],
        "current-context": context,
        "preferences": {},
        "users": [{"name": user, "user": {
            "client-certificate-data": encode(&admin.certificate),
            "client-key-data": encode(&admin.key),
        }}],
    }))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubeconfig_is_signed_by_the_authority() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        let authority = Identity { certificate, key: key.serialize_pem() };
        let endpoint = ApiEndpoint { host: Some("fd00::1".into()), port: Some(6443) };
        let text = kubeconfig("demo", &endpoint, &authority, Timestamp::UNIX_EPOCH).expect("a kubeconfig");
        let read = kube::config::Kubeconfig::from_yaml(&text).expect("it can be read");
        assert_eq!(read.current_context.as_deref(), Some("demo-admin@demo"));
        let cluster = read.clusters[0].cluster.as_ref().expect("a cluster");
        assert_eq!(cluster.server.as_deref(), Some("https://[fd00::1]:6443"));
    }
}
