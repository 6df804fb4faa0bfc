//! CertificateSigningRequests: the server sets the user, the spec is immutable, approving and signing are separate subresources
//! with separate rights.

use base64::{Engine, engine::general_purpose::STANDARD};
use capstan_pki::{CertificateRequest, is_certificates};
use serde_json::{Value, json};

use super::super::{Env, Rules, Side, Subresource, Writer};
use crate::{
    certificates::{CLIENT_SIGNER, REQUESTS, conditions, conditions_of},
    names::NameRule,
    object,
    rbac::Access,
    status::{ApiError, Cause, Result},
    user::MASTERS,
};

pub(crate) const CERTIFICATE_SIGNING_REQUEST: Rules = Rules {
    name: NameRule::PathSegment,
    on_create: |request, env| {
        let spec = &mut request["spec"];
        for field in ["username", "uid", "groups", "extra"] {
            remove(spec, field);
        }
        for (field, value) in env.user.info().as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        request["status"] = json!({});
    },
    on_update: |request, old, _| {
        copy(old, request, "spec");
        copy(old, request, "status");
    },
    on_status: |request, old, env| {
        for kind in [APPROVED, DENIED] {
            keep_conditions(request, old, kind);
        }
        stamp_conditions(request, old, env);
    },
    validate: |request, old| validate(request, old, Way::Main),
    validate_status: |request, old| validate(request, Some(old), Way::Status),
    admit,
    reset: &["spec", "status"],
    reset_status: &["spec", "status.conditions"],
    ..Rules::PLAIN
};

/// The subresource that approves and denies requests.
pub(crate) const APPROVAL: Subresource = Subresource {
    name: "approval",
    merge: |new, old| {
        let mut merged = old.clone();
        merged["metadata"] = new["metadata"].clone();
        let conditions = object::at(new, &["status", "conditions"]).filter(|c| **c != json!([]));
        match conditions {
            Some(conditions) => merged["status"]["conditions"] = conditions.clone(),
            None => remove(&mut merged["status"], "conditions"),
        }
        merged
    },
    prepare: stamp_conditions,
    validate: |request, old| validate(request, Some(old), Way::Approval),
    reset: &["spec", "status.certificate"],
};

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Main,
    Status,
    Approval,
}

fn remove(value: &mut Value, field: &str) {
    if let Some(map) = value.as_object_mut() {
        map.shift_remove(field);
    }
}

fn copy(from: &Value, to: &mut Value, field: &str) {
    match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => remove(to, field),
    }
}

fn conditions_mut(request: &mut Value) -> impl Iterator<Item = &mut Value> {
    request.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
}

/// Puts the old conditions of a type back, unless some were added or removed, which is refused later.
fn keep_conditions(request: &mut Value, old: &Value, kind: &str) {
    let before: Vec<&Value> = conditions_of(old, kind).collect();
    if conditions_of(request, kind).count() != before.len() {
        return;
    }
    let now = conditions_mut(request).filter(|condition| object::text(condition, &["type"]) == kind);
    for (condition, before) in now.zip(before) {
        *condition = before.clone();
    }
}

/// Fills in the times that were left out.
fn stamp_conditions(request: &mut Value, old: &Value, env: &Env<'_>) {
    let now = object::time(env.now);
    for condition in conditions_mut(request) {
        if object::text(condition, &["lastUpdateTime"]).is_empty() {
            condition["lastUpdateTime"] = now.as_str().into();
        }
        if object::text(condition, &["lastTransitionTime"]).is_empty() {
            let same = |before: &&Value| {
                ["type", "status"].iter().all(|field| before.get(*field) == condition.get(*field))
            };
            let before = conditions(old).iter().find(same);
            let since = before.map_or("", |before| object::text(before, &["lastTransitionTime"]));
            let since = if since.is_empty() { &now } else { since }.to_owned();
            condition["lastTransitionTime"] = since.into();
        }
    }
}

fn validate(request: &Value, old: Option<&Value>, subresource: Way) -> Vec<Cause> {
    let mut causes = Vec::new();
    if old.is_none() {
        causes.extend(validate_spec(&request["spec"]));
    }
    causes.extend(validate_conditions(request));
    let certificate = |request: &Value| object::text(request, &["status", "certificate"]).to_owned();
    let (before, now) = (old.map(certificate).unwrap_or_default(), certificate(request));
    if before != now && !now.is_empty() && !is_certificate(&now) {
        let detail = "must contain at least one CERTIFICATE PEM block";
        causes.push(Cause::invalid("status.certificate", &"<certificate data>".into(), detail));
    }
    let Some(old) = old else { return causes };
    for kind in [APPROVED, DENIED, FAILED] {
        let (before, now): (Vec<_>, Vec<_>) =
            (conditions_of(old, kind).collect(), conditions_of(request, kind).collect());
        let mut refuse = |what: &str| {
            let detail = format!("updates may not {what} a condition of type {kind:?}");
            causes.push(Cause::forbidden("status.conditions", &detail));
        };
        if now.len() < before.len() {
            refuse("remove");
        } else if subresource != Way::Approval && kind != FAILED {
            if now.len() > before.len() {
                refuse("add");
            } else if now != before {
                refuse("modify");
            }
        }
    }
    if before != now {
        if subresource != Way::Status {
            causes.push(Cause::forbidden("status.certificate", "updates may not set certificate content"));
        } else if !before.is_empty() {
            let detail = "updates may not modify existing certificate content";
            causes.push(Cause::forbidden("status.certificate", detail));
        }
    }
    causes
}

fn is_certificate(encoded: &str) -> bool {
    STANDARD.decode(encoded).is_ok_and(|pem| is_certificates(&pem))
}

fn validate_spec(spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let pem = STANDARD.decode(object::text(spec, &["request"])).unwrap_or_default();
    if let Err(error) = CertificateRequest::parse(&pem) {
        causes.push(Cause::invalid("spec.request", &spec["request"], &error));
    }
    let usages = spec.get("usages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if usages.is_empty() {
        causes.push(Cause::required("spec.usages", ""));
    }
    // Which usages there are, the schema knows.
    for (index, usage) in usages.iter().enumerate().filter(|(index, usage)| usages[..*index].contains(usage))
    {
        causes.push(Cause::duplicate(format!("spec.usages[{index}]"), usage));
    }
    causes.extend(validate_signer(object::text(spec, &["signerName"])));
    if let Some(seconds) = spec.get("expirationSeconds").and_then(Value::as_i64).filter(|s| *s < 600) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        causes.push(Cause::invalid("spec.expirationSeconds", &seconds.into(), detail));
    }
    causes
}

fn validate_signer(name: &str) -> Option<Cause> {
    let wrong = |detail: &str| Some(Cause::invalid("spec.signerName", &name.into(), detail));
    if name.is_empty() {
        return Some(Cause::required("spec.signerName", ""));
    }
    if name == "kubernetes.io/legacy-unknown" {
        return wrong("the legacy signerName is not allowed via this API version");
    }
    let is_label = |part: &str| {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        edge(part.chars().next())
            && edge(part.chars().last())
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [domain, path] => {
            let domain: Vec<&str> = domain.split('.').collect();
            if domain.len() < 2 || !domain.iter().all(|part| is_label(part)) {
                return wrong("should be a domain with at least two segments separated by dots");
            }
            if !path.split('.').all(is_label) || name.len() > 571 {
                return wrong(
                    "must be a fully qualified domain and path of the form 'example.com/signer-name'",
                );
            }
            None
        }
        _ => wrong("must be a fully qualified domain and path of the form 'example.com/signer-name'"),
    }
}

fn validate_conditions(request: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let all = conditions(request);
    for (index, condition) in all.iter().enumerate() {
        let (kind, status) = (object::text(condition, &["type"]), object::text(condition, &["status"]));
        let path = |field: &str| format!("status.conditions[{index}].{field}");
        if kind.is_empty() {
            causes.push(Cause::required(path("type"), ""));
        }
        let allowed: &[&str] = if [APPROVED, DENIED, FAILED].contains(&kind) {
            &["True"]
        } else {
            &["False", "True", "Unknown"]
        };
        if status.is_empty() {
            causes.push(Cause::required(path("status"), ""));
        } else if !allowed.contains(&status) {
            causes.push(Cause::unsupported(path("status"), &status.into(), allowed));
        }
        let before = |wanted: &str| all[..index].iter().any(|c| object::text(c, &["type"]) == wanted);
        if (kind == APPROVED && before(DENIED)) || (kind == DENIED && before(APPROVED)) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            causes.push(Cause::invalid("status.conditions", &kind.into(), detail));
        }
        if before(kind) {
            causes.push(Cause::duplicate(path("type"), &kind.into()));
        }
    }
    causes
}

/// Whose request, whose approval, whose signature.
fn admit(writer: &Writer<'_>, request: &Value, old: Option<&Value>) -> Result<()> {
    let refused = |detail: String| Err(ApiError::forbidden(writer.resource, object::name(request), &detail));
    let signer = object::text(old.unwrap_or(request), &["spec", "signerName"]);
    let verb = match (writer.side, old) {
        (Side::Main, None) => return admit_subject(request, signer, refused),
        (Side::Status, Some(old)) if old.get("status") != request.get("status") => "sign",
        (Side::Subresource(_), _) => "approve",
        _ => return Ok(()),
    };
    let domain = signer.split('/').next().unwrap_or_default();
    let may = |name: &str| {
        let (group, resource) = (REQUESTS.0, "signers");
        let access = Access::Resource { verb, group, namespace: "", resource, subresource: "", name };
        writer.authorizer.allows(&access)
    };
    if may(signer) || may(&format!("{domain}/*")) {
        return Ok(());
    }
    refused(format!("user not permitted to {verb} requests with signerName {signer:?}"))
}

/// Nobody becomes an administrator by a request. What cannot be read is refused as invalid.
fn admit_subject(request: &Value, signer: &str, refused: impl Fn(String) -> Result<()>) -> Result<()> {
    let pem = STANDARD.decode(object::text(request, &["spec", "request"])).unwrap_or_default();
    match CertificateRequest::parse(&pem) {
        Ok(parsed)
            if signer == CLIENT_SIGNER && parsed.organizations.iter().any(|group| group == MASTERS) =>
        {
            refused(format!("use of {CLIENT_SIGNER} signer with system:masters group is not allowed"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(causes: &[Cause]) -> Vec<&str> {
        causes.iter().map(|cause| cause.field.as_str()).collect()
    }

    #[test]
    fn specs() {
        let spec = json!({"request": "", "signerName": "x", "usages": ["client auth", "nope", "nope"], "expirationSeconds": 599});
        let causes = validate_spec(&spec);
        assert_eq!(
            fields(&causes),
            ["spec.request", "spec.usages[2]", "spec.signerName", "spec.expirationSeconds"]
        );
        for good in [CLIENT_SIGNER, "example.com/a.b-c"] {
            assert_eq!(validate_signer(good), None);
        }
        for bad in ["", "a", "a/b", "example.com/", "example.com/a/b", "kubernetes.io/legacy-unknown"] {
            assert!(validate_signer(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn subresources() {
        let with = |conditions: Value, certificate: &str| json!({"status": {"conditions": conditions, "certificate": certificate}});
        let approved = || json!([{"type": APPROVED, "status": "True"}]);
        let (plain, done) = (with(json!([]), ""), with(approved(), ""));
        assert_eq!(validate(&done, Some(&plain), Way::Approval), []);
        assert_eq!(fields(&validate(&done, Some(&plain), Way::Status)), ["status.conditions"]);
        assert_eq!(fields(&validate(&plain, Some(&done), Way::Approval)), ["status.conditions"]);
        let both =
            with(json!([{"type": APPROVED, "status": "True"}, {"type": DENIED, "status": "True"}]), "");
        assert_eq!(fields(&validate(&both, Some(&done), Way::Approval)), ["status.conditions"]);
        let issued = with(approved(), "eA==");
        assert_eq!(fields(&validate(&issued, Some(&done), Way::Approval)).len(), 2);
        assert_eq!(fields(&validate(&issued, Some(&done), Way::Status)), ["status.certificate"]);
        let odd = with(json!([{"type": APPROVED, "status": "False"}, {"type": "", "status": ""}]), "");
        assert_eq!(validate_conditions(&odd).len(), 3);
    }
}
