//! `serviceaccounts/token`: a token for a service account that expires and may be bound to an object.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::texts;
use crate::{
    auth::service_account::{Bound, Grant},
    call::Call,
    object,
    status::{ApiError, Cause, Result},
    store::{GroupResource, Key, Stored},
};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const HOUR: i64 = 60 * 60;
const SHORTEST: i64 = 10 * 60;
const LONGEST: i64 = 1 << 32;

/// Issues a token.
pub(crate) fn answer(call: &Call, mut request: Value) -> Result<Value> {
    let (namespace, name) = (call.namespace.as_str(), call.name.as_str());
    for (field, own) in [("name", name), ("namespace", namespace)] {
        let given = object::meta_str(&request, field);
        if !given.is_empty() && given != own {
            let detail = format!("must match the service account {field} if specified");
            let cause = Cause::invalid(format!("metadata.{field}"), &given.into(), &detail);
            return Err(ApiError::invalid(GROUP, KIND, name, &[cause]));
        }
    }
    let account = find(call, "serviceaccounts", namespace, name)?;
    let (given, uid) = (object::uid(&request), object::uid(&account.value));
    if !given.is_empty() && given != uid {
        let detail = format!(
            "the UID in the token request ({given}) does not match the UID of the service account ({uid})"
        );
        return Err(ApiError::conflict(&GroupResource::new(GROUP, KIND), name, &detail));
    }
    let seconds = match &request["spec"]["expirationSeconds"] {
        Value::Null => HOUR,
        given => seconds(given)?,
    };
    let bound = bound(call, request["spec"].get("boundObjectRef").filter(|reference| !reference.is_null()))?;
    let bound: Vec<Bound<'_>> = bound.iter().map(Holder::claim).collect();
    let mut audiences = texts(request["spec"].get("audiences"));
    if audiences.is_empty() {
        audiences = call.plane.issuer.audiences();
    }
    let now = call.plane.now();
    let grant =
        Grant { namespace, account: &account.value, bound: &bound, audiences: &audiences, now, seconds };
    let token =
        call.plane.issuer.issue(&grant).ok_or_else(|| ApiError::internal("failed to sign a token"))?;
    request["metadata"] =
        json!({"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": object::time(now)});
    request["spec"]["audiences"] = json!(audiences);
    request["spec"]["expirationSeconds"] = seconds.into();
    let until = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    request["status"] = json!({"token": token, "expirationTimestamp": object::time(until)});
    Ok(request)
}

fn seconds(given: &Value) -> Result<i64> {
    let seconds = given.as_i64().unwrap_or(0);
    let detail = match seconds {
        ..SHORTEST => "may not specify a duration less than 10 minutes",
        SHORTEST..=LONGEST => return Ok(seconds),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let cause = Cause::invalid("spec.expirationSeconds", given, detail);
    Err(ApiError::invalid(GROUP, KIND, "", &[cause]))
}

fn find(call: &Call, resource: &str, namespace: &str, name: &str) -> Result<Arc<Stored>> {
    let resource = GroupResource::new("", resource);
    let found = call.plane.store.get(&Key::new(resource.clone(), namespace, name));
    found.ok_or_else(|| ApiError::not_found(&resource, name))
}

/// An object that the token dies with. Of a pod's node, only what there is.
struct Holder {
    claim: &'static str,
    name: String,
    uid: String,
}

impl Holder {
    fn of(claim: &'static str, stored: &Stored) -> Self {
        Self { claim, name: stored.key.name.clone(), uid: object::uid(&stored.value).to_owned() }
    }

    fn claim(&self) -> Bound<'_> {
        Bound { claim: self.claim, name: &self.name, uid: &self.uid }
    }
}

fn bound(call: &Call, reference: Option<&Value>) -> Result<Vec<Holder>> {
    let Some(reference) = reference else { return Ok(Vec::new()) };
    let text = |field: &str| object::text(reference, &[field]);
    let (group, version) = object::split_api_version(text("apiVersion"));
    let (resource, claim) = match (group, text("kind")) {
        ("", "Secret") => ("secrets", "secret"),
        ("", "Pod") => ("pods", "pod"),
        ("", "Node") => ("nodes", "node"),
        (group, kind) => {
            let message = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(ApiError::bad_request(message));
        }
    };
    let within = if claim == "node" { "" } else { &call.namespace };
    let found = find(call, resource, within, text("name"))?;
    let mut holders = vec![Holder::of(claim, &found)];
    if claim == "pod" {
        let (account, node) = (
            object::text(&found.value, &["spec", "serviceAccountName"]),
            object::text(&found.value, &["spec", "nodeName"]),
        );
        if account != call.name {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                call.name
            )));
        }
        match find(call, "nodes", "", node) {
            Ok(node) => holders.push(Holder::of("node", &node)),
            Err(_) if node.is_empty() => {}
            Err(_) => holders.push(Holder { claim: "node", name: node.to_owned(), uid: String::new() }),
        }
    }
    let (given, uid) = (text("uid"), object::uid(&found.value));
    if !given.is_empty() && given != uid {
        let detail = format!(
            "the UID in the bound object reference ({given}) does not match the UID in record. The object might \
             have been deleted and then recreated"
        );
        return Err(ApiError::conflict(&GroupResource::new("", text("kind")), text("name"), &detail));
    }
    Ok(holders)
}
