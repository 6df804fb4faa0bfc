//! `AdmissionReview`: the question, and what an answer must be.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::Attempt;
use crate::{call::Call, object, registry::Side};

/// As much of a warning as is passed on, and of all warnings of an answer.
const LONGEST_WARNING: usize = 256;
const MOST_WARNINGS: usize = 16;

/// A question to one webhook.
pub(super) struct Asked<'a> {
    pub(super) call: &'a Call,
    pub(super) attempt: &'a Attempt<'a>,
    /// The version the webhook knows.
    pub(super) version: &'a str,
    /// The version of the review.
    pub(super) review: &'static str,
    pub(super) uid: &'a str,
}

impl Asked<'_> {
    /// The review; the objects are in the version that the webhook knows.
    pub(super) fn review(&self, object: Option<&Value>, old: Option<&Value>) -> Value {
        let Self { call, attempt, version, review, uid } = self;
        let resource = &call.resource;
        let kind = |version: &str| match call.side {
            Side::Scale => json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}),
            _ => json!({"group": resource.name.group(), "version": version, "kind": resource.kind}),
        };
        let named = |version: &str| {
            json!({
                "group": resource.name.group(), "version": version, "resource": resource.name.resource(),
            })
        };
        let own = call.version.name.as_str();
        let mut request = json!({
            "uid": uid, "kind": kind(version), "resource": named(version),
            "requestKind": kind(own), "requestResource": named(own),
            "operation": attempt.operation.as_str(), "userInfo": call.user.info(),
            "object": object, "oldObject": old, "dryRun": attempt.dry_run, "options": attempt.options,
        });
        let subresource = call.side.subresource();
        let texts = [
            ("name", attempt.name),
            ("namespace", call.namespace.as_str()),
            ("subResource", subresource),
            ("requestSubResource", subresource),
        ];
        for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            request[field] = text.into();
        }
        json!({
            "kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{review}"), "request": request,
        })
    }
}

/// What a webhook thinks.
#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    /// The `Status` it refuses with, which may say nothing.
    pub(super) denied: Option<Value>,
    /// A JSON patch.
    pub(super) patch: Option<Value>,
    pub(super) warnings: Vec<String>,
}

/// Reads an answer to the review of this uid.
pub(super) fn read(answer: &Value, review: &str, uid: &str, mutating: bool) -> Result<Verdict, String> {
    let expected = format!("admission.k8s.io/{review}");
    if object::api_version(answer) != expected || object::kind(answer) != "AdmissionReview" {
        let given = gvk_of(Some(answer));
        return Err(format!("expected webhook response of {expected}, Kind=AdmissionReview, got {given}"));
    }
    let response = answer.get("response").filter(|response| response.is_object());
    let response = response.ok_or("webhook response was absent")?;
    let given = object::text(response, &["uid"]);
    if given != uid {
        return Err(format!("expected response.uid={uid:?}, got {given:?}"));
    }
    let allowed = response.get("allowed") == Some(&Value::Bool(true));
    let warnings = response.get("warnings").and_then(Value::as_array).into_iter().flatten();
    let warnings = warnings.filter_map(Value::as_str).take(MOST_WARNINGS);
    Ok(Verdict {
        denied: (!allowed).then(|| response.get("status").cloned().unwrap_or(Value::Null)),
        patch: if mutating && allowed { patch(response)? } else { None },
        warnings: warnings.map(|warning| warning.chars().take(LONGEST_WARNING).collect()).collect(),
    })
}

fn patch(response: &Value) -> Result<Option<Value>, String> {
    let written = object::text(response, &["patch"]);
    match (written, object::text(response, &["patchType"])) {
        ("", "") => return Ok(None),
        ("", _) => return Err("webhook returned response.patchType but not response.patch".to_owned()),
        (_, "JSONPatch") => {}
        (_, "") => return Err("webhook returned response.patch but not response.patchType".to_owned()),
        (_, other) => return Err(format!("webhook returned invalid response.patchType of {other:?}")),
    }
    let bytes = STANDARD.decode(written).map_err(|error| format!("response.patch is not base64: {error}"))?;
    let patch: Value =
        serde_json::from_slice(&bytes).map_err(|error| format!("response.patch is not JSON: {error}"))?;
    match patch {
        Value::Null => Ok(None),
        Value::Array(steps) if steps.is_empty() => Ok(None),
        Value::Array(_) => Ok(Some(patch)),
        _ => Err("response.patch is not a JSON patch".to_owned()),
    }
}

/// What an object says it is.
pub(super) fn gvk_of(object: Option<&Value>) -> String {
    let object = object.unwrap_or(&Value::Null);
    format!("{}, Kind={}", object::api_version(object), object::kind(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(response: &Value) -> Value {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }

    #[test]
    fn responses_must_belong_to_the_request_and_be_valid() {
        let read = |response: Value| read(&answer(&response), "v1", "u", true);
        let patch = STANDARD.encode(r#"[{"op":"remove","path":"/a"}]"#);
        let verdict = read(
            json!({"uid": "u", "allowed": true, "patch": patch, "patchType": "JSONPatch", "warnings": ["w"]}),
        );
        let verdict = verdict.unwrap();
        assert_eq!(verdict.patch, Some(json!([{"op": "remove", "path": "/a"}])));
        assert_eq!((verdict.denied, verdict.warnings), (None, vec!["w".to_owned()]));
        let denied = read(json!({"uid": "u", "allowed": false, "status": {"message": "no"}})).unwrap();
        assert_eq!(denied.denied, Some(json!({"message": "no"})));
        for wrong in [
            json!({"uid": "x", "allowed": true}),
            json!({"uid": "u", "allowed": true, "patch": patch}),
            json!({"uid": "u", "allowed": true, "patchType": "JSONPatch"}),
            json!({"uid": "u", "allowed": true, "patch": patch, "patchType": "Other"}),
            json!({"uid": "u", "allowed": true, "patch": "!", "patchType": "JSONPatch"}),
            json!(null),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
        assert!(super::read(&json!({}), "v1", "u", true).is_err());
    }
}
