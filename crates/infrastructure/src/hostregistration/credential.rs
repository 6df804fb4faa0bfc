//! The credential of a machine that dials out: when it gets one, and the objects that give it its rights. Pure.
//!
//! The credential is a token of the machine's own ServiceAccount, sealed to the key of the machine. It is worth nothing
//! beyond the registration, and ends with it: the registration owns the ServiceAccount.

use capstan_api::access::{MACHINE_ACCOUNTS, registered_host};
use capstan_api::agent::MachineCredential;
use capstan_api::infrastructure::HostRegistration;
use capstan_pki::machine_token::TokenQuery;
use capstan_pki::seal::SealError;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use std::time::Duration;

/// The requested life of a credential: a machine that was switched off for most of a year comes back by itself. A management plane
/// may issue a shorter one.
pub(super) const LIFE: SignedDuration = SignedDuration::from_hours(400 * 24);

/// The age at which a credential is renewed at the latest. What is left of its life is how long a machine may be off.
const AGE: SignedDuration = SignedDuration::from_hours(60 * 24);

/// Pause until the machine needs another credential; nothing if it needs one now.
pub(super) fn valid_for(registration: &HostRegistration, now: Timestamp) -> Option<Duration> {
    let credential = registration.spec.credential.as_ref()?;
    let aged = credential.issued_at.0.checked_add(AGE).unwrap_or(now);
    let renewal = credential.renewal().min(aged);
    Duration::try_from(renewal.duration_since(now)).ok().filter(|wait| !wait.is_zero())
}

/// Name of the ServiceAccount of the machine.
pub(super) fn account(registration: &HostRegistration) -> String {
    format!("{}{MACHINE_ACCOUNTS}", registration.name_any())
}

/// Name of its Role and its RoleBinding.
pub(super) fn role(registration: &HostRegistration) -> String {
    registration.name_any()
}

/// The ServiceAccount.
pub(super) fn service_account(registration: &HostRegistration) -> Value {
    object(registration, &account(registration), json!({"automountServiceAccountToken": false}))
}

/// The Role.
pub(super) fn rights(registration: &HostRegistration) -> Value {
    let rules = registered_host(&registration.name_any());
    object(registration, &role(registration), json!({"rules": rules}))
}

/// The RoleBinding.
pub(super) fn binding(registration: &HostRegistration) -> Value {
    let subject = json!({
        "kind": "ServiceAccount", "name": account(registration), "namespace": registration.namespace(),
    });
    let role_ref =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role(registration)});
    object(registration, &role(registration), json!({"roleRef": role_ref, "subjects": [subject]}))
}

fn object(registration: &HostRegistration, name: &str, mut fields: Value) -> Value {
    fields["metadata"] = json!({
        "name": name,
        "namespace": registration.namespace(),
        "ownerReferences": registration.owner_ref(&()).map(|owner| vec![owner]),
    });
    fields
}

/// A token of the ServiceAccount with this UID, for this machine only.
///
/// # Errors
/// If the public key in the registration cannot be used.
pub(super) fn sealed(
    registration: &HostRegistration,
    token: &str,
    account: &str,
    issued: Timestamp,
    expires: Timestamp,
) -> Result<MachineCredential, SealError> {
    let (name, spec) = (registration.name_any(), &registration.spec);
    let query = TokenQuery { machine_id: &name, public_key: &spec.public_key, nonce: &spec.nonce };
    Ok(MachineCredential {
        sealed_token: query.seal(token)?,
        account: account.to_owned(),
        token_key: None,
        issued_at: Time(issued),
        expires_at: Time(expires),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registration(credential: &Value) -> HostRegistration {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostRegistration",
            "metadata": {"name": "host-1", "namespace": "yard", "uid": "u"},
            "spec": {"publicKey": "AAAA", "nonce": "n", "token": "edge", "proof": "0".repeat(64),
                "credential": credential},
        }))
        .expect("a HostRegistration")
    }

    #[test]
    fn a_credential_is_renewed_after_two_thirds_of_its_life() {
        let credential = json!({"sealedToken": "AA==", "account": "a",
            "issuedAt": "2026-01-01T00:00:00Z", "expiresAt": "2026-01-04T00:00:00Z"});
        for (credential, now, expected) in [
            (json!(null), "2026-01-01T00:00:00Z", None),
            (credential.clone(), "2026-01-01T00:00:00Z", Some(48 * 3600)),
            (credential.clone(), "2026-01-02T23:00:00Z", Some(3600)),
            (credential.clone(), "2026-01-03T00:00:00Z", None),
            (credential, "2027-01-01T00:00:00Z", None),
        ] {
            let wait = valid_for(&registration(&credential), now.parse().expect("a time"));
            assert_eq!(wait.map(|wait| wait.as_secs()), expected, "{now}");
        }
    }

    /// A machine that connects now and then always has a credential for ten months and more.
    #[test]
    fn a_credential_that_lives_for_a_year_is_renewed_after_two_months() {
        let issued: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let expires = issued.checked_add(LIFE).expect("a time");
        let credential =
            json!({"sealedToken": "AA==", "account": "a", "issuedAt": issued, "expiresAt": expires});
        let wait = valid_for(&registration(&credential), issued).expect("a wait");
        assert_eq!(wait.as_secs(), 60 * 24 * 3600);
        let renewed = issued.checked_add(wait).expect("a time");
        assert!(expires.duration_since(renewed) >= SignedDuration::from_hours(24 * 330));
        assert_eq!(valid_for(&registration(&credential), renewed), None);
    }

    #[test]
    fn a_machine_may_touch_its_registration_and_nothing_else() {
        let registration = registration(&json!(null));
        let rule = |resource: &str, verbs: &[&str]| {
            json!({"apiGroups": ["infrastructure.cluster.x-k8s.io"], "resources": [resource],
                "resourceNames": ["host-1"], "verbs": verbs})
        };
        let expected = [
            rule("hostregistrations", &["get", "list", "watch"]),
            rule("hostregistrations/status", &["get", "update", "patch"]),
        ];
        assert_eq!(rights(&registration)["rules"], json!(expected));
        let binding = binding(&registration);
        assert_eq!(binding["subjects"][0]["name"], "host-1.machine.capstan.dev");
        assert_eq!(binding["roleRef"]["name"], "host-1");
        for object in [service_account(&registration), rights(&registration), binding] {
            assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "u");
        }
    }

    #[test]
    fn a_key_that_is_none_gets_no_credential() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(sealed(&registration(&json!(null)), "token", "a", now, now), Err(SealError::Key));
    }
}
