//! The writes of an enrolment. Each is idempotent, and the process may stop after any of them.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use capstan_api::agent::{CredentialRequest, MachineCredential, MachineReport};
use capstan_controller::error::{Doing as _, Error, Result};
use capstan_controller::{Grounds, destroy};
use capstan_pki::machine_token::TokenQuery;
use futures::future::try_join_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::decide::request::Request;
use super::decide::{Change, EnrolmentStep};
use crate::capstanconfig::{Bootstrap, Seen};
use crate::names::{ANSWERED, ANSWERED_AT, Names};

/// The requested life of a credential. The rights of a machine end with its CapstanConfig, not with its credential, so
/// this is long enough for a machine that was switched off for a month. A management plane may issue a shorter one.
const CREDENTIAL_LIFE: SignedDuration = SignedDuration::from_hours(90 * 24);

/// The ID of the key that signed a token, if the token names it.
fn token_key(token: &str) -> Option<String> {
    let (header, _) = token.split_once('.')?;
    let header: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
    let key = header["kid"].as_str()?;
    (1..=256).contains(&key.chars().count()).then(|| key.to_owned())
}

impl Bootstrap {
    /// Carries out one step of enrolment.
    pub(crate) async fn take(&self, step: &EnrolmentStep, seen: &Seen) -> Result<()> {
        let Some(own) = &seen.own else { return Ok(()) };
        let names = &own.names;
        match step {
            EnrolmentStep::Rest => Ok(()),
            EnrolmentStep::Objects(changes) => {
                // A server refuses a binding to a role that is not there yet.
                let (bindings, others): (Vec<&Change>, Vec<&Change>) =
                    changes.iter().partition(|change| change.is_binding());
                for wave in [others, bindings] {
                    try_join_all(wave.into_iter().map(|change| self.change(names, change))).await?;
                }
                Ok(())
            }
            EnrolmentStep::Part => {
                tracing::info!(machine = names.machine, "the machine must enrol again");
                let spec = json!({"credential": null, "enrolledWith": null});
                self.write_report(names, own.report.as_ref(), json!({}), spec).await
            }
            EnrolmentStep::Answer { request, account } => {
                let credential = self.credential(names, request, account).await?;
                let annotations = json!({
                    ANSWERED: request.digest.to_string(),
                    ANSWERED_AT: credential.issued_at.0.to_string(),
                });
                let mut spec = json!({
                    "enrolledKey": request.key.to_string(), "credential": credential,
                    "enrolledWith": seen.this_plane.record(),
                });
                // Null where it is unknown: the ID of an earlier key would stay otherwise.
                spec["credential"]["tokenKey"] = json!(credential.token_key);
                self.write_report(names, own.report.as_ref(), annotations, spec).await?;
                tracing::info!(machine = names.machine, key = %request.key, "the machine has its credential");
                Ok(())
            }
        }
    }

    /// A token of the machine's ServiceAccount, sealed to the machine's key. If the process stops before the token is
    /// written, no client has it.
    async fn credential(&self, names: &Names, request: &Request, account: &str) -> Result<MachineCredential> {
        let now = Timestamp::now();
        let (token, expires) = self.token(names, &names.account(), account, CREDENTIAL_LIFE).await?;
        let CredentialRequest { public_key, nonce } = &request.written;
        let query = TokenQuery { machine_id: &names.machine_id, public_key, nonce };
        let sealed_token = query
            .seal(&token)
            .map_err(|error| Error::transient(format!("cannot answer Machine {}", names.machine), error))?;
        Ok(MachineCredential {
            token_key: token_key(&token),
            sealed_token,
            account: account.to_owned(),
            issued_at: Time(now),
            expires_at: Time(expires),
        })
    }

    /// Requests a token of the ServiceAccount with this name and UID.
    pub(crate) async fn token(
        &self,
        names: &Names,
        account: &str,
        uid: &str,
        life: SignedDuration,
    ) -> Result<(String, Timestamp)> {
        let api: Api<ServiceAccount> = self.api(&names.namespace);
        let request = TokenRequest {
            metadata: ObjectMeta { uid: Some(uid.to_owned()), ..ObjectMeta::default() },
            spec: Some(TokenRequestSpec {
                // The API server's own.
                audiences: Some(Vec::new()),
                expiration_seconds: Some(life.as_secs()),
                ..TokenRequestSpec::default()
            }),
            status: None,
        };
        let doing = || format!("cannot get a token for ServiceAccount {}/{account}", names.namespace);
        let made = api.create_token_request(account, &PostParams::default(), &request).await.doing(doing)?;
        let status = made.status.unwrap_or_default();
        match (status.token, status.expiration_timestamp) {
            (Some(token), Some(expires)) if !token.is_empty() => Ok((token, expires.0)),
            _ => Err(Error::transient(doing(), "there is none in the answer")),
        }
    }

    async fn change(&self, names: &Names, change: &Change) -> Result<()> {
        match change {
            Change::Create(wanted) => {
                let doing =
                    || format!("cannot make {} {}/{}", wanted.kind.kind, names.namespace, wanted.name);
                let object = serde_json::from_value(wanted.object.clone())
                    .map_err(|error| Error::transient(doing(), error))?;
                match self
                    .untyped(&names.namespace, wanted.kind)
                    .create(&PostParams::default(), &object)
                    .await
                {
                    // Another replica was faster: what it made is looked at in the next round.
                    Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                        Err(Error::Conflict { doing: doing() })
                    }
                    made => made.map(|_| ()).doing(doing),
                }
            }
            Change::Repair(kind, name, patch) => self
                .untyped(&names.namespace, *kind)
                .patch(name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .map(|_| ())
                .doing(|| format!("cannot change {} {}/{name}", kind.kind, names.namespace)),
            Change::Remove(kind, name, uid) => {
                let seen =
                    ObjectMeta { name: Some(name.clone()), uid: Some(uid.clone()), ..ObjectMeta::default() };
                let grounds = Grounds::asked("the machine does not need it any more");
                destroy::delete(&self.untyped(&names.namespace, *kind), &seen, &grounds).await
            }
        }
    }

    /// Writes to the report, unless it has changed since it was read.
    async fn write_report(
        &self,
        names: &Names,
        read: Option<&MachineReport>,
        annotations: Value,
        spec: Value,
    ) -> Result<()> {
        let api: Api<MachineReport> = self.api(&names.namespace);
        let name = names.report();
        let version = read.and_then(kube::ResourceExt::resource_version);
        let patch =
            json!({"metadata": {"resourceVersion": version, "annotations": annotations}, "spec": spec});
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map(|_| ())
            .doing(|| format!("cannot write MachineReport {}/{name}", names.namespace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_token_is_in_its_header() {
        let token = |header: &str| format!("{}.e30.x", BASE64_URL_SAFE_NO_PAD.encode(header));
        assert_eq!(token_key(&token(r#"{"alg":"RS256","kid":"k1"}"#)).as_deref(), Some("k1"));
        for unknown in [token("{}"), token(r#"{"kid":""}"#), token("?"), "opaque".to_owned(), String::new()] {
            assert_eq!(token_key(&unknown), None, "{unknown}");
        }
    }
}
