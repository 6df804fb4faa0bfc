//! Whether the kubeconfig Secret must be written, and its content. Pure.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_controller::owners;
use capstan_controller::secrets::{self, Purpose, pair};
use capstan_distro::Endpoint;
use capstan_pki::issue::Identity;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use serde_json::json;
use std::collections::BTreeMap;

use crate::certificates::{self, MakeError};
use crate::names::{KUBECONFIG_EXPIRES, KUBECONFIG_SERVER};

/// Validity of its client certificate.
const LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);

/// It is generated again when its certificate is valid for less than this time.
const RENEWAL: SignedDuration = SignedDuration::from_hours(182 * 24);

/// Whether the Secret must be written. A Secret that another object controls is never changed.
pub(super) fn is_due(
    found: Option<&Secret>,
    owner: &CapstanControlPlane,
    endpoint: &Endpoint,
    now: Timestamp,
) -> bool {
    let Some(secret) = found else { return true };
    if !owners::is_controlled_by(&secret.metadata, owner) {
        return false;
    }
    let annotation = |key: &str| secret.annotations().get(key);
    let expires = annotation(KUBECONFIG_EXPIRES).and_then(|text| text.parse::<Timestamp>().ok());
    let same_server = annotation(KUBECONFIG_SERVER) == Some(&endpoint.url());
    !same_server || expires.is_none_or(|expires| expires.duration_since(now) < RENEWAL)
}

/// The desired Secret.
pub(super) fn build(
    ca: &Secret,
    owner: &CapstanControlPlane,
    cluster: &str,
    endpoint: &Endpoint,
    now: Timestamp,
) -> Result<Secret, MakeError> {
    let text = |key| secrets::get(ca, key).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let ca = Identity {
        certificate: text(pair::CERTIFICATE).ok_or(MakeError::Authority)?,
        key: text(pair::KEY).ok_or(MakeError::Authority)?,
    };
    let expires = now.checked_add(LIFE)?;
    let client = certificates::client(&ca, "kubernetes-admin", "system:masters", expires, now)?;
    let namespace = owner.namespace().unwrap_or_default();
    let value = [(secrets::VALUE, document(cluster, endpoint, &ca, &client).into_bytes())];
    let mut secret = secrets::build(&namespace, cluster, Purpose::Kubeconfig.secret_name(cluster), value);
    secret.metadata.owner_references = owners::controller(owner).map(|owner| vec![owner]);
    secret.metadata.annotations = Some(BTreeMap::from([
        (KUBECONFIG_EXPIRES.to_owned(), expires.to_string()),
        (KUBECONFIG_SERVER.to_owned(), endpoint.url()),
    ]));
    Ok(secret)
}

fn document(cluster: &str, endpoint: &Endpoint, ca: &Identity, client: &Identity) -> String {
    let user = format!("{cluster}-admin");
    let context = format!("{user}@{cluster}");
    let data = |pem: &str| BASE64_STANDARD.encode(pem);
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {
            "server": endpoint.url(),
            "certificate-authority-data": data(&ca.certificate),
        }}],
        "users": [{"name": user, "user": {
            "client-certificate-data": data(&client.certificate),
            "client-key-data": data(&client.key),
        }}],
        "contexts": [{"name": context, "context": {"cluster": cluster, "user": user}}],
        "current-context": context,
    });
    serde_saphyr::to_string(&document).expect("texts and lists can be written as YAML")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str) -> CapstanControlPlane {
        serde_json::from_value(json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1", "kind": "CapstanControlPlane",
            "metadata": {"name": "c", "namespace": "default", "uid": uid},
            "spec": {"version": "v1.36.0", "machineTemplate": {"spec": {"infrastructureRef":
                {"kind": "HostMachineTemplate", "name": "t", "apiGroup": "infrastructure.cluster.x-k8s.io"}}}},
        }))
        .expect("a control plane")
    }

    #[test]
    fn it_is_made_moved_and_renewed_but_never_taken_from_others() {
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().expect("a time");
        let endpoint = Endpoint { host: "10.0.0.1".to_owned(), port: 6443 };
        let made = certificates::tests_ca(now);
        let secret = build(&made, &owner("1"), "c", &endpoint, now).expect("a kubeconfig");
        let due = |secret, uid, endpoint: &Endpoint, days: i64| {
            let then = now.checked_add(SignedDuration::from_hours(24 * days)).expect("a time");
            is_due(secret, &owner(uid), endpoint, then)
        };
        assert!(due(None, "1", &endpoint, 0));
        assert!(!due(Some(&secret), "1", &endpoint, 0));
        assert!(!due(Some(&secret), "1", &endpoint, 180));
        assert!(due(Some(&secret), "1", &endpoint, 190));
        assert!(due(Some(&secret), "1", &Endpoint { port: 443, ..endpoint.clone() }, 0));
        assert!(!due(Some(&secret), "2", &endpoint, 1000));
        let text =
            String::from_utf8(secrets::get(&secret, "value").expect("a value").to_vec()).expect("text");
        let read = kube::config::Kubeconfig::from_yaml(&text).expect("a kubeconfig");
        assert_eq!(read.current_context.as_deref(), Some("c-admin@c"));
    }
}
