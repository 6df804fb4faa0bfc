//! Errors as clients see them: `Status` objects with upstream's reasons and texts.
//!
//! Clients switch on `reason` and `code` and print `message`; all three follow upstream to the letter.

use std::borrow::Cow;

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
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {}: {detail}", go_value(value)))
    }

    /// The field must be there.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        Self::new("FieldValueRequired", field, format!("Required value{message}"))
    }

    /// The field must not be there, or not like this.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {detail}"))
    }

    /// The value is there twice.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {}", go_value(value)))
    }

    /// There are more of them than may be.
    pub(crate) fn too_many(field: impl Into<String>, count: usize, most: usize) -> Self {
        Self::new("FieldValueTooMany", field, format!("Too many: {count}: must have at most {most} items"))
    }

    /// The value is none of those there are.
    pub fn unsupported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
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
    code: u16,
    reason: Cow<'static, str>,
    message: String,
    details: Map<String, Value>,
    continue_token: Option<String>,
    warnings: Vec<String>,
}

/// What most functions of the API server give.
pub type Result<T, E = ApiError> = std::result::Result<T, E>;

impl ApiError {
    fn new(code: u16, reason: &'static str, message: String) -> Self {
        let reason = Cow::Borrowed(reason);
        let (details, warnings) = (Map::new(), Vec::new());
        Self(Box::new(Parts { code, reason, message, details, continue_token: None, warnings }))
    }

    /// The same, told with what was odd before it came to this, unless it has been said already.
    pub fn warned(mut self, warnings: Vec<String>) -> Self {
        if self.0.warnings.is_empty() {
            self.0.warnings = warnings;
        }
        self
    }

    /// What was odd beside the error.
    pub fn warnings(&self) -> &[String] {
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
    pub fn code(&self) -> u16 {
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
        status["code"] = self.0.code.into();
        status
    }

    /// There is no such object.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {name:?} not found");
        Self::new(404, "NotFound", message).about(resource, name)
    }

    /// No such path, or a resource nobody serves.
    pub fn no_such_path() -> Self {
        let message = "the server could not find the requested resource".to_owned();
        Self::new(404, "NotFound", message)
    }

    /// There is such an object.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {name:?} already exists");
        Self::new(409, "AlreadyExists", message).about(resource, name)
    }

    /// Who has the name will not have it much longer.
    pub fn going_away(resource: &GroupResource, name: &str) -> Self {
        let mut error = Self::already_exists(resource, name);
        error.0.message.insert_str(0, "object is being deleted: ");
        error
    }

    /// A name was found for an object, or should have been, and somebody has it.
    pub fn no_free_name(resource: &GroupResource, name: &str) -> Self {
        let mut error = Self::already_exists(resource, name);
        error.0.message += ", the server was not able to generate a unique name for the object";
        error.0.details.insert("retryAfterSeconds".to_owned(), 1.into());
        error
    }

    /// The write conflicts with the stored object.
    pub fn conflict(resource: &GroupResource, name: &str, detail: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {detail}");
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// The object is not the one the client read.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        let detail =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, detail)
    }

    /// A server-side apply that others stand in the way of.
    pub fn apply_conflict(message: String, causes: &[Cause]) -> Self {
        Self::new(409, "Conflict", message).causes(causes)
    }

    /// Fields are wrong. `kind` is the kind, not the plural.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
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
        Self::new(422, "Invalid", message).about(&GroupResource::new(group, kind), name).causes(causes)
    }

    /// The user lacks a right, or the object must not be written like this.
    pub fn forbidden(resource: &GroupResource, name: &str, detail: &str) -> Self {
        let what = if name.is_empty() {
            format!("{resource} is forbidden")
        } else {
            format!("{resource} {name:?} is forbidden")
        };
        Self::new(403, "Forbidden", format!("{what}: {detail}")).about(resource, name)
    }

    /// A webhook has refused, with a `Status` that may say nothing.
    pub fn denied(webhook: &str, status: &Value) -> Self {
        let denied = format!("admission webhook {webhook:?} denied the request");
        let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default();
        let (reason, message) = (text("reason"), text("message"));
        let message = match (message, reason) {
            ("", "") => format!("{denied} without explanation"),
            ("", reason) => format!("{denied}: {reason}"),
            (message, _) => format!("{denied}: {message}"),
        };
        let mut error = Self::of_status(status, 400);
        error.0.message = message;
        error
    }

    /// The error that a Status describes.
    pub fn from_status(status: &Value) -> Self {
        Self::of_status(status, 500)
    }

    fn of_status(status: &Value, default_code: u16) -> Self {
        let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default();
        let code = status.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let code = code.filter(|code| (400..1000).contains(code));
        let mut error = Self::new(code.unwrap_or(default_code), "", text("message").to_owned());
        error.0.reason = Cow::Owned(text("reason").to_owned());
        error.0.details = status.get("details").and_then(Value::as_object).cloned().unwrap_or_default();
        error
    }

    /// A policy has rejected a write. Without a reason it is invalid, as upstream.
    pub fn denied_by_policy(resource: &GroupResource, name: &str, reason: &str, message: &str) -> Self {
        let mut error = Self::forbidden(resource, name, message);
        let (code, reason) = match reason {
            "Forbidden" => (403, "Forbidden"),
            "Unauthorized" => (401, "Unauthorized"),
            "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
            _ => (422, "Invalid"),
        };
        (error.0.code, error.0.reason) = (code, Cow::Borrowed(reason));
        error.0.details.insert("causes".to_owned(), json!([{"message": message}]));
        error
    }

    /// Mutating policies have rejected a write: messages and reasons, of which the first counts. As upstream, the code does
    /// not depend on the reason.
    pub fn denied_by_mutation(
        resource: &GroupResource,
        name: &str,
        denied: &[(String, &'static str)],
    ) -> Self {
        let (message, reason) = denied.first().cloned().unwrap_or_default();
        let mut error = Self::new(403, reason, message).about(resource, name);
        let causes = denied.iter().map(|(message, _)| json!({"message": message})).collect();
        error.0.details.insert("causes".to_owned(), Value::Array(causes));
        error
    }

    /// A path that is not a resource, refused.
    pub fn forbidden_path(message: String) -> Self {
        Self::new(403, "Forbidden", message)
    }

    /// Nothing may be made in a namespace that is going away.
    pub fn namespace_terminating(resource: &GroupResource, name: &str, namespace: &str) -> Self {
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
    pub fn unexplained(message: impl Into<String>) -> Self {
        Self::new(500, "", message.into())
    }

    /// The options of a request are wrong.
    pub fn invalid_options(kind: &str, cause: Cause) -> Self {
        Self::invalid("meta.k8s.io", kind, "", &[cause])
    }

    /// A patch that does not fit the object. Upstream keeps the reason to itself; its message comes first.
    pub fn patch_rejected(detail: &str) -> Self {
        let message = format!("the server rejected our request due to an error in our request: {detail}");
        Self::new(422, "Invalid", message)
    }

    /// The credential is missing or invalid.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized".to_owned())
    }

    /// The request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message.into())
    }

    /// The resource does not have this verb.
    pub fn method_not_allowed(detail: &str) -> Self {
        let message = if detail.is_empty() {
            "the server does not allow this method on the requested resource".to_owned()
        } else {
            detail.to_owned()
        };
        Self::new(405, "MethodNotAllowed", message)
    }

    /// The client accepts no form that the server has.
    pub fn not_acceptable(accepted: &str) -> Self {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::new(406, "NotAcceptable", message)
    }

    /// The body has a form that the server does not read.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message.into())
    }

    /// The patch is too large to be applied.
    pub fn patch_too_large(message: String) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// The body is larger than a number of bytes.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: {message}"))
    }

    /// The body did not come in time.
    pub fn too_slow() -> Self {
        Self::new(408, "Timeout", "the body of the request did not come in time".to_owned())
    }

    /// The revision is beyond the window.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message.into())
    }

    /// The page's revision is beyond the window; a fresh token lets the client go on all the same.
    pub fn expired_page(fresh: String) -> Self {
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
    pub fn revision_too_large(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let cause = Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            field: String::new(),
            message: "Too large resource version".to_owned(),
        };
        let mut error = Self::new(504, "Timeout", format!("Timeout: {message}")).causes(&[cause]);
        error.0.details.insert("retryAfterSeconds".to_owned(), 1.into());
        error
    }

    /// The server failed.
    pub fn internal(detail: &str) -> Self {
        let message = format!("Internal error occurred: {detail}");
        let mut error = Self::new(500, "InternalError", message);
        error.0.details.insert("causes".to_owned(), json!([{"message": detail}]));
        error
    }

    /// Whoever is told so waits a second and comes again.
    pub fn too_many_requests() -> Self {
        let message = "too many requests, please try again later".to_owned();
        let mut error = Self::new(429, "TooManyRequests", message);
        error.0.details.insert("retryAfterSeconds".to_owned(), 1.into());
        error
    }

    /// The server cannot respond now.
    pub fn unavailable(detail: &str) -> Self {
        Self::new(503, "ServiceUnavailable", detail.to_owned())
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
