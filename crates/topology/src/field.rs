//! Errors of fields, with paths as Kubernetes writes them: `spec.topology.variables[cpu].value`.

use capstan_apiserver_schema::{ErrorKind, FieldError};
use serde_json::Value;

/// `parent.name`
pub fn child(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_string() } else { format!("{parent}.{name}") }
}

/// `parent[entry]`, for an index or the key of a map.
pub fn entry(parent: &str, entry: impl std::fmt::Display) -> String {
    format!("{parent}[{entry}]")
}

/// A value that breaks a rule.
pub fn invalid(path: &str, value: impl Into<Value>, detail: impl Into<String>) -> FieldError {
    new(path, ErrorKind::Invalid, Some(value.into()), detail)
}

/// A field that must be set.
pub fn required(path: &str, detail: impl Into<String>) -> FieldError {
    new(path, ErrorKind::Required, None, detail)
}

/// A field that must not be set, or not changed.
pub fn forbidden(path: &str, detail: impl Into<String>) -> FieldError {
    new(path, ErrorKind::Forbidden, None, detail)
}

/// A field that could not be checked.
pub fn internal(path: &str, detail: impl Into<String>) -> FieldError {
    new(path, ErrorKind::InternalError, None, detail)
}

/// An error of any kind.
pub fn new(path: &str, kind: ErrorKind, bad_value: Option<Value>, detail: impl Into<String>) -> FieldError {
    FieldError { path: path.to_string(), kind, bad_value, detail: detail.into() }
}

/// Errors as one text, for messages about another object than the one with the fields.
pub(crate) fn joined(errors: &[FieldError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
