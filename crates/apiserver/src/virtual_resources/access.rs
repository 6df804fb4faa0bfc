//! Reviews of access: whether a user or the caller is allowed a request, and the rules of the caller.

use serde_json::{Value, json};

use super::texts;
use crate::{
    auth::authorize::{self, Resolution},
    call::Call,
    object,
    rbac::Access,
    status::{ApiError, Cause, Result},
    user::User,
};

/// SubjectAccessReview: whether a user is allowed a request.
pub(crate) fn subject(call: &Call, review: Value) -> Result<Value> {
    let mut causes = Vec::from_iter(attribute_cause(&review));
    causes.extend(subject_cause(&review));
    causes.extend(metadata_cause(&review, &[], "must be empty"));
    decide(call, review, &causes, named)
}

/// LocalSubjectAccessReview: whether a user is allowed a request in this namespace.
pub(crate) fn local_subject(call: &Call, mut review: Value) -> Result<Value> {
    // As for every object: the path says where it is.
    match object::meta_str(&review, "namespace") {
        "" => review["metadata"]["namespace"] = call.namespace.as_str().into(),
        own if own != call.namespace => {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        _ => {}
    }
    let mut causes = Vec::from_iter(attribute_cause(&review));
    causes.extend(subject_cause(&review));
    causes.extend(metadata_cause(&review, &["namespace"], "must be empty except for namespace"));
    let attributes = |kind: &str| object::at(&review, &["spec", kind]);
    if let Some(attributes) = attributes("resourceAttributes") {
        let asked = object::text(attributes, &["namespace"]);
        if asked != call.namespace {
            let field = "spec.resourceAttributes.namespace";
            causes.push(Cause::invalid(field, &asked.into(), "must match metadata.namespace"));
        }
    }
    if let Some(attributes) = attributes("nonResourceAttributes") {
        let detail = "disallowed on this kind of request";
        causes.push(Cause::invalid("spec.nonResourceAttributes", attributes, detail));
    }
    decide(call, review, &causes, named)
}

/// SelfSubjectAccessReview: whether the caller is allowed a request.
pub(crate) fn self_subject(call: &Call, review: Value) -> Result<Value> {
    let mut causes = Vec::from_iter(attribute_cause(&review));
    causes.extend(metadata_cause(&review, &[], "must be empty"));
    decide(call, review, &causes, |_| call.user.clone())
}

/// SelfSubjectRulesReview: what may I do at all?
pub(crate) fn self_rules(call: &Call, mut review: Value) -> Result<Value> {
    let namespace = object::text(&review, &["spec", "namespace"]);
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let Resolution { rules, error } = authorize::rules_for(&call.plane.store, &call.user, namespace);
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in rules {
        if !rule.resources.is_empty() {
            let mut shown = rule.clone();
            shown.non_resource_urls.clear();
            resources.push(json!(shown));
        }
        if !rule.non_resource_urls.is_empty() {
            paths.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}));
        }
    }
    review["metadata"] = json!({});
    review["spec"] = json!({});
    review["status"] = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    if !error.is_empty() {
        review["status"]["evaluationError"] = error.into();
    }
    Ok(review)
}

fn decide(
    call: &Call,
    mut review: Value,
    causes: &[Cause],
    who: impl FnOnce(&Value) -> User,
) -> Result<Value> {
    if !causes.is_empty() {
        // As upstream, where the kind is lost on the way.
        return Err(ApiError::invalid(call.resource.name.group(), "", "", causes));
    }
    let spec = &review["spec"];
    let access = access(spec);
    let decision = authorize::decide(&call.plane.store, &who(spec), &access);
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    review["status"] = status;
    Ok(review)
}

fn access(spec: &Value) -> Access<'_> {
    match spec.get("resourceAttributes") {
        Some(attributes) => {
            let text = |field: &str| object::text(attributes, &[field]);
            Access::Resource {
                verb: text("verb"),
                group: text("group"),
                namespace: text("namespace"),
                resource: text("resource"),
                subresource: text("subresource"),
                name: text("name"),
            }
        }
        None => {
            let text = |field: &str| object::text(spec, &["nonResourceAttributes", field]);
            Access::Path { verb: text("verb"), path: text("path") }
        }
    }
}

/// Whom a review names; nobody is in a group that it does not name.
fn named(spec: &Value) -> User {
    User {
        name: object::text(spec, &["user"]).to_owned(),
        groups: texts(spec.get("groups")),
        ..User::anonymous()
    }
}

fn attribute_cause(review: &Value) -> Option<Cause> {
    let attributes = |kind: &str| object::at(review, &["spec", kind]);
    match (attributes("resourceAttributes"), attributes("nonResourceAttributes")) {
        (Some(_), Some(path)) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            Some(Cause::invalid("spec.nonResourceAttributes", path, detail))
        }
        (None, None) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            Some(Cause::invalid("spec.resourceAttributes", &Value::Null, detail))
        }
        _ => None,
    }
}

fn subject_cause(review: &Value) -> Option<Cause> {
    let nobody = object::text(review, &["spec", "user"]).is_empty()
        && texts(object::at(review, &["spec", "groups"])).is_empty();
    nobody.then(|| Cause::invalid("spec.user", &"".into(), "at least one of user or group must be specified"))
}

fn metadata_cause(review: &Value, allowed: &[&str], detail: &str) -> Option<Cause> {
    let metadata = review.get("metadata")?.as_object()?;
    let odd = metadata.keys().any(|field| field != "managedFields" && !allowed.contains(&field.as_str()));
    odd.then(|| Cause::invalid("metadata", &review["metadata"], detail))
}
