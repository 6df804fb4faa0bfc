//! Errors as clients see them: `Status` objects with upstream's reasons and texts.
//!
//! Clients switch on `reason` and `code` and print `message`; all three follow upstream to the letter.

use std::borrow::Cow;

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::{
    object::MOST_BYTES,
    store::{GroupResource, WriteError},
};

/// One invalid field, as in `status.details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable reason, such as `FieldValueInvalid`.
    pub reason: String,
    /// The path of the field.
    pub field: String,
    /// What is wrong with the field, in upstream's words, without the path.
    pub message: String,
}

impl Cause {
    fn new(reason: &str, field: impl Into<String>, message: String) -> Self {
        Self { reason: reason.to_owned(), field: field.into(), message }
    }

    /// The value is of the right type and wrong.
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {}: {detail}", go_value(value)))
    }

    /// The field must be there.
    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        Self::new("FieldValueRequired", field, format!("Required value{message}"))
    }

    /// The field must not be there, or not like this.
    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {detail}"))
    }

    /// The value is there twice.
    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {}", go_value(value)))
    }

    /// There are more of them than may be.
    pub(crate) fn too_many(field: impl Into<String>, count: usize, most: usize) -> Self {
        Self::new("FieldValueTooMany", field, format!("Too many: {count}: must have at most {most} items"))
    }

    /// The value is none of those there are.
    pub(crate) fn unsupported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        let message =
            format!("Unsupported value: {}: supported values: {}", go_value(value), supported.join(", "));
        Self::new("FieldValueNotSupported", field, message)
    }
}

/// A value as Go's field errors print it.
fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        other => other.to_string(),
    }
}

/// An error with everything that its `Status` contains.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub struct ApiError(Box<Parts>);

/// Behind a pointer: most results are good ones.
#[derive(Clone, Debug)]
struct Parts {
    code: StatusCode,
    reason: Cow<'static, str>,
    message: String,
    details: Map<String, Value>,
    continue_token: Option<String>,
    warnings: Vec<String>,
}

/// What most of this crate's functions give.
pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

impl ApiError {
    fn new(code: StatusCode, reason: &'static str, message: String) -> Self {
        let reason = Cow::Borrowed(reason);
        let (details, warnings) = (Map::new(), Vec::new());
        Self(Box::new(Parts { code, reason, message, details, continue_token: None, warnings }))
    }

    /// The same, told with what was odd before it came to this, unless it has been said already.
    pub(crate) fn warned(mut self, warnings: Vec<String>) -> Self {
        if self.0.warnings.is_empty() {
            self.0.warnings = warnings;
        }
        self
    }

    /// What was odd beside the error.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    fn about(mut self, resource: &GroupResource, name: &str) -> Self {
        let fields = [("name", name), ("group", resource.group()), ("kind", resource.resource())];
        for (field, value) in fields {
            if !value.is_empty() {
                self.0.details.insert(field.to_owned(), value.into());
            }
        }
        self
    }

    fn causes(mut self, causes: &[Cause]) -> Self {
        let cause = |cause: &Cause| {
            let mut value = json!({"reason": cause.reason, "message": cause.message});
            if !cause.field.is_empty() {
                value["field"] = cause.field.as_str().into();
            }
            value
        };
        if !causes.is_empty() {
            self.0.details.insert("causes".to_owned(), causes.iter().map(cause).collect());
        }
        self
    }

    /// The HTTP status code.
    pub fn code(&self) -> StatusCode {
        self.0.code
    }

    /// The machine-readable reason.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"});
        if let Some(token) = &self.0.continue_token {
            status["metadata"]["continue"] = token.as_str().into();
        }
        status["message"] = self.0.message.as_str().into();
        if !self.0.reason.is_empty() {
            status["reason"] = self.0.reason.as_ref().into();
        }
        if !self.0.details.is_empty() {
            status["details"] = Value::Object(self.0.details.clone());
        }
        status["code"] = self.0.code.as_u16().into();
        status
    }

    pub(crate) fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {name:?} not found");
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(resource, name)
    }

    /// No such path, or a resource nobody serves.
    pub(crate) fn no_such_path() -> Self {
        let message = "the server could not find the requested resource".to_owned();
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    pub(crate) fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {name:?} already exists");
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(resource, name)
    }

    /// Who has the name will not have it much longer.
    pub(crate) fn going_away(resource: &GroupResource, name: &str) -> Self {
        let mut error = Self::already_exists(resource, name);
        error.0.message.insert_str(0, "object is being deleted: ");
        error
    }

    /// A name was found for an object, or should have been, and somebody has it.
    pub(crate) fn no_free_name(resource: &GroupResource, name: &str) -> Self {
        let mut error = Self::already_exists(resource, name);
        error.0.message += ", the server was not able to generate a unique name for the object";
        error.0.details.insert("retryAfterSeconds".to_owned(), 1.into());
        error
    }

    pub(crate) fn conflict(resource: &GroupResource, name: &str, detail: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {detail}");
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(resource, name)
    }

    /// The object is not the one the client read.
    pub(crate) fn modified(resource: &GroupResource, name: &str) -> Self {
        let detail =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, detail)
    }

    /// A server-side apply that others stand in the way of.
    pub(crate) fn apply_conflict(message: String, causes: &[Cause]) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", message).causes(causes)
    }

    /// Fields are wrong. `kind` is the kind, not the plural.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let lines: Vec<String> =
            causes
                .iter()
                .map(|c| {
                    if c.field.is_empty() { c.message.clone() } else { format!("{}: {}", c.field, c.message) }
                })
                .collect();
        let text =
            if let [line] = lines.as_slice() { line.clone() } else { format!("[{}]", lines.join(", ")) };
        let message = format!("{qualified} {name:?} is invalid: {text}");
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
            .about(&GroupResource::new(group, kind), name)
            .causes(causes)
    }

    pub(crate) fn forbidden(resource: &GroupResource, name: &str, detail: &str) -> Self {
        let what = if name.is_empty() {
            format!("{resource} is forbidden")
        } else {
            format!("{resource} {name:?} is forbidden")
        };
        Self::new(StatusCode::FORBIDDEN, "Forbidden", format!("{what}: {detail}")).about(resource, name)
    }

    /// A webhook has refused, with a `Status` that may say nothing.
    pub(crate) fn denied(webhook: &str, status: &Value) -> Self {
        let denied = format!("admission webhook {webhook:?} denied the request");
        let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default();
        let (reason, message) = (text("reason"), text("message"));
        let message = match (message, reason) {
            ("", "") => format!("{denied} without explanation"),
            ("", reason) => format!("{denied}: {reason}"),
            (message, _) => format!("{denied}: {message}"),
        };
        let code = status.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let code = code.and_then(|code| StatusCode::from_u16(code).ok()).filter(|code| code.as_u16() >= 400);
        let mut error = Self::new(code.unwrap_or(StatusCode::BAD_REQUEST), "", message);
        error.0.reason = Cow::Owned(reason.to_owned());
        error.0.details = status.get("details").and_then(Value::as_object).cloned().unwrap_or_default();
        error
    }

    /// A policy has rejected a write. Without a reason it is invalid, as upstream.
    pub(crate) fn denied_by_policy(
        resource: &GroupResource,
        name: &str,
        reason: &str,
        message: &str,
    ) -> Self {
        let mut error = Self::forbidden(resource, name, message);
        let (code, reason) = match reason {
            "Forbidden" => (StatusCode::FORBIDDEN, "Forbidden"),
            "Unauthorized" => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            "RequestEntityTooLarge" => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            _ => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
        };
        (error.0.code, error.0.reason) = (code, Cow::Borrowed(reason));
        error.0.details.insert("causes".to_owned(), json!([{"message": message}]));
        error
    }

    /// Mutating policies have rejected a write: messages and reasons, of which the first counts. As upstream, the code does
    /// not depend on the reason.
    pub(crate) fn denied_by_mutation(
        resource: &GroupResource,
        name: &str,
        denied: &[(String, &'static str)],
    ) -> Self {
        let (message, reason) = denied.first().cloned().unwrap_or_default();
        let mut error = Self::new(StatusCode::FORBIDDEN, reason, message).about(resource, name);
        let causes = denied.iter().map(|(message, _)| json!({"message": message})).collect();
        error.0.details.insert("causes".to_owned(), Value::Array(causes));
        error
    }

    /// A path that is not a resource, refused.
    pub(crate) fn forbidden_path(message: String) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    /// Nothing may be made in a namespace that is going away.
    pub(crate) fn namespace_terminating(resource: &GroupResource, name: &str, namespace: &str) -> Self {
        let detail =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = Cause {
            reason: "NamespaceTerminating".to_owned(),
            field: "metadata.namespace".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
        };
        Self::forbidden(resource, name, &detail).causes(&[cause])
    }

    /// As upstream, which has no reason for it either.
    pub(crate) fn unexplained(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message.into())
    }

    /// The options of a request are wrong.
    pub(crate) fn invalid_options(kind: &str, cause: Cause) -> Self {
        Self::invalid("meta.k8s.io", kind, "", &[cause])
    }

    /// A patch that does not fit the object. Upstream keeps the reason to itself; its message comes first.
    pub(crate) fn patch_rejected(detail: &str) -> Self {
        let message = format!("the server rejected our request due to an error in our request: {detail}");
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized".to_owned())
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message.into())
    }

    pub(crate) fn method_not_allowed(detail: &str) -> Self {
        let message = if detail.is_empty() {
            "the server does not allow this method on the requested resource".to_owned()
        } else {
            detail.to_owned()
        };
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message.into())
    }

    pub(crate) fn patch_too_large(message: String) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("limit is {limit}");
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: {message}"),
        )
    }

    /// The body did not come in time.
    pub(crate) fn too_slow() -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "Timeout",
            "the body of the request did not come in time".to_owned(),
        )
    }

    /// The revision is beyond the window.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message.into())
    }

    /// The page's revision is beyond the window; a fresh token lets the client go on all the same.
    pub(crate) fn expired_page(fresh: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. \
             You can start a new list without the continue parameter, or use the continue token in this \
             response to retrieve the remainder of the results. Continuing with the provided token results \
             in an inconsistent list - objects that were created, modified, or deleted between the time the \
             first chunk was returned and now may show up in the list.";
        let mut error = Self::expired(message);
        error.0.continue_token = Some(fresh);
        error
    }

    /// The client has seen a revision that we have not: another server's, or one before a restore.
    pub(crate) fn revision_too_large(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let cause = Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            field: String::new(),
            message: "Too large resource version".to_owned(),
        };
        let mut error =
            Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Timeout: {message}")).causes(&[cause]);
        error.0.details.insert("retryAfterSeconds".to_owned(), 1.into());
        error
    }

    pub(crate) fn internal(detail: &str) -> Self {
        let message = format!("Internal error occurred: {detail}");
        let mut error = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message);
        error.0.details.insert("causes".to_owned(), json!([{"message": detail}]));
        error
    }

    /// Whoever is told so waits a second and comes again.
    pub(crate) fn too_many_requests() -> Self {
        let message = "too many requests, please try again later".to_owned();
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        error.0.details.insert("retryAfterSeconds".to_owned(), 1.into());
        error
    }

    pub(crate) fn unavailable(detail: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", detail.to_owned())
    }
}

impl From<WriteError> for ApiError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Closed => Self::unavailable("the server is shutting down"),
            WriteError::Commit(cause) => Self::internal(&format!("cannot write to the store: {cause}")),
            WriteError::TooLarge => Self::too_large(MOST_BYTES),
            WriteError::Conflict => Self::internal(&error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_upstreams() {
        let machines = GroupResource::new("cluster.x-k8s.io", "machines");
        let error = ApiError::not_found(&machines, "a");
        assert_eq!(error.to_string(), r#"machines.cluster.x-k8s.io "a" not found"#);
        assert_eq!(
            error.to_status()["details"],
            json!({"name": "a", "group": "cluster.x-k8s.io", "kind": "machines"})
        );
        let one = [Cause::required("spec.clusterName", "")];
        let error = ApiError::invalid("cluster.x-k8s.io", "Machine", "a", &one);
        assert_eq!(
            error.to_string(),
            r#"Machine.cluster.x-k8s.io "a" is invalid: spec.clusterName: Required value"#
        );
        let two = [one[0].clone(), Cause::forbidden("x", "no")];
        let error = ApiError::invalid("", "Secret", "a", &two);
        assert!(
            error.to_string().ends_with("is invalid: [spec.clusterName: Required value, x: Forbidden: no]")
        );
    }
}
