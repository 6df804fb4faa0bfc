//! Signs approved requests for client certificates, with the CA that clients are verified against. It approves nothing.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use capstan_pki::CertificateRequest;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::engine::{self, Controller};
use crate::{
    authority::{KeyUsages, Signer},
    call::Call,
    certificates::{CLIENT_SIGNER, REQUESTS, conditions, has, is_issued},
    object,
    plane::Plane,
    registry::Side,
    request::options::WriteOptions,
    status::Result,
    store::{Change, Event, GroupResource, Key, Listing},
    user::User,
    verbs::update::{self, Edit},
};

/// Runs until the server stops.
pub(crate) async fn run(plane: Arc<Plane>, signer: Signer, stopping: watch::Receiver<bool>) {
    let requests = GroupResource::new(REQUESTS.0, REQUESTS.1);
    engine::run(plane, stopping, Issuing { requests, signer }).await;
}

struct Issuing {
    requests: GroupResource,
    signer: Signer,
}

impl Controller for Issuing {
    type Item = Key;

    fn seed(&mut self, everything: &Listing) -> Vec<Key> {
        let requests = everything.items.iter().filter(|stored| stored.key.resource == self.requests);
        requests.filter(|stored| is_due(&stored.value)).map(|stored| stored.key.clone()).collect()
    }

    fn observe(&mut self, event: &Event) -> Vec<Key> {
        let due = event.object.key.resource == self.requests
            && event.change != Change::Deleted
            && is_due(&event.object.value);
        if due { vec![event.object.key.clone()] } else { Vec::new() }
    }

    async fn process(&mut self, plane: &Arc<Plane>, key: &Key) -> Result<Vec<Key>> {
        let user = User::controller("certificate-controller");
        let Some(mut call) = Call::internal(plane, key, &user) else { return Ok(Vec::new()) };
        call.side = Side::Status;
        let Some(stored) = plane.store.get(key).filter(|stored| is_due(&stored.value)) else {
            return Ok(Vec::new());
        };
        let (uid, spec) = (object::uid(&stored.value), &stored.value["spec"]);
        let Some(answer) = self.answer(spec, plane.now()) else { return Ok(Vec::new()) };
        let edit = |current: Option<&Value>| {
            let current = current.ok_or_else(|| call.not_found())?;
            let mut object = current.clone();
            // Another of the same name is looked at by itself.
            if object::uid(current) == uid && is_due(current) {
                match &answer {
                    Answer::Certificate(encoded) => object["status"]["certificate"] = encoded.as_str().into(),
                    Answer::Failed(condition) => {
                        let mut all = conditions(current).to_vec();
                        all.push(condition.clone());
                        object["status"]["conditions"] = all.into();
                    }
                }
            }
            Ok(Edit { object, warnings: Vec::new(), tracked: false })
        };
        match update::update(&call, &WriteOptions::default(), edit).await {
            Err(error) if error.reason() == "NotFound" => Ok(Vec::new()),
            written => written.map(|_| Vec::new()),
        }
    }
}

/// Whether a request waits for us.
fn is_due(request: &Value) -> bool {
    object::text(request, &["spec", "signerName"]) == CLIENT_SIGNER
        && has(request, "Approved")
        && !has(request, "Denied")
        && !has(request, "Failed")
        && !is_issued(request)
}

/// What a request comes to.
enum Answer {
    /// The certificate in PEM, base64-encoded as in `status.certificate`.
    Certificate(String),
    /// The condition `Failed`.
    Failed(Value),
}

impl Issuing {
    /// Nothing if waiting is all that is left: until somebody changes the authority.
    fn answer(&self, spec: &Value, now: jiff::Timestamp) -> Option<Answer> {
        let failed = |message: String| {
            Some(Answer::Failed(json!({
                "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": message,
                "lastUpdateTime": object::time(now),
            })))
        };
        let pem = STANDARD.decode(object::text(spec, &["request"])).unwrap_or_default();
        let request = match CertificateRequest::parse(&pem) {
            Ok(request) => request,
            Err(error) => return failed(error),
        };
        let usages = match key_usages(spec) {
            Ok(usages) => usages,
            Err(error) => return failed(error),
        };
        let life = spec.get("expirationSeconds").and_then(Value::as_i64).map(SignedDuration::from_secs);
        match self.signer.sign(&request, usages, now, life) {
            Ok(pem) => Some(Answer::Certificate(STANDARD.encode(pem))),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "cannot sign a certificate");
                None
            }
        }
    }
}

/// What a client certificate may be asked to be good for.
fn key_usages(spec: &Value) -> Result<KeyUsages, String> {
    let (mut usages, mut client) = (KeyUsages::default(), false);
    let asked = spec.get("usages").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    for usage in asked {
        match usage {
            "digital signature" => usages.digital_signature = true,
            "key encipherment" => usages.key_encipherment = true,
            "client auth" => client = true,
            other => return Err(format!("invalid usage for client certificate: {other}")),
        }
    }
    if client {
        Ok(usages)
    } else {
        Err("missing required usage for client certificate: client auth".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usages_of_clients() {
        let usages = |words: &[&str]| key_usages(&json!({"usages": words}));
        let both = KeyUsages { digital_signature: true, key_encipherment: true };
        assert_eq!(usages(&["client auth", "digital signature", "key encipherment"]), Ok(both));
        assert_eq!(usages(&["client auth"]), Ok(KeyUsages::default()));
        assert!(usages(&["digital signature"]).unwrap_err().starts_with("missing"));
        assert!(usages(&["client auth", "server auth"]).unwrap_err().ends_with(": server auth"));
        assert!(usages(&["client auth", "cert sign"]).is_err());
    }

    #[test]
    fn only_what_was_approved() {
        let request = |conditions: &[&str], signer: &str| {
            let conditions: Vec<Value> = conditions.iter().map(|kind| json!({"type": kind})).collect();
            json!({"spec": {"signerName": signer}, "status": {"conditions": conditions}})
        };
        assert!(is_due(&request(&["Approved"], CLIENT_SIGNER)));
        assert!(!is_due(&request(&[], CLIENT_SIGNER)));
        assert!(!is_due(&request(&["Approved", "Denied"], CLIENT_SIGNER)));
        assert!(!is_due(&request(&["Approved", "Failed"], CLIENT_SIGNER)));
        assert!(!is_due(&request(&["Approved"], "kubernetes.io/kubelet-serving")));
        let mut issued = request(&["Approved"], CLIENT_SIGNER);
        issued["status"]["certificate"] = "x".into();
        assert!(!is_due(&issued));
    }
}
