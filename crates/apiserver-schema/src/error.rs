//! Field errors with the messages of a kube-apiserver, because clients, tests and people compare them. The text for a
//! constraint is beside that constraint; this file contains only the form of the message.

use crate::gotext;
use serde_json::Value;
use std::fmt;

/// The kind of a [`FieldError`]. It determines the first words and the machine-readable reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The field is required.
    Required,
    /// The value violates a constraint.
    Invalid,
    /// The value is not one of the allowed values.
    NotSupported,
    /// The value already exists.
    Duplicate,
    /// The string is too long.
    TooLong,
    /// The list or map has too many entries.
    TooMany,
    /// The value has the wrong type.
    TypeInvalid,
    /// The field must not be set.
    Forbidden,
    /// The server could not evaluate the value.
    InternalError,
}

impl ErrorKind {
    /// The reason of a cause in a `Status`.
    pub fn reason(self) -> &'static str {
        match self {
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Invalid => "FieldValueInvalid",
            ErrorKind::NotSupported => "FieldValueNotSupported",
            ErrorKind::Duplicate => "FieldValueDuplicate",
            ErrorKind::TooLong => "FieldValueTooLong",
            ErrorKind::TooMany => "FieldValueTooMany",
            ErrorKind::TypeInvalid => "FieldValueTypeInvalid",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::InternalError => "InternalError",
        }
    }

    fn words(self) -> &'static str {
        match self {
            ErrorKind::Required => "Required value",
            ErrorKind::Invalid | ErrorKind::TypeInvalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::TooLong => "Too long",
            ErrorKind::TooMany => "Too many",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::InternalError => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            ErrorKind::Required | ErrorKind::Forbidden | ErrorKind::TooLong | ErrorKind::InternalError
        )
    }
}

/// An error of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Path of the field, such as `spec.list[0].name`, or `<nil>` for the object itself.
    pub path: String,
    /// Kind of the error.
    pub kind: ErrorKind,
    /// The rejected value; `None` if it is omitted on purpose.
    pub bad_value: Option<Value>,
    /// The details; may be empty.
    pub detail: String,
}

impl FieldError {
    pub(crate) fn new(
        path: impl Into<String>,
        kind: ErrorKind,
        bad_value: Option<Value>,
        detail: impl Into<String>,
    ) -> FieldError {
        let path = path.into();
        let path = if path.is_empty() { ROOT.to_string() } else { path };
        FieldError { path, kind, bad_value, detail: detail.into() }
    }

    /// The last error of an object that has more than are told.
    pub(crate) fn more_errors(path: &str) -> FieldError {
        FieldError::invalid(path, "", "there are more errors, which are not shown")
    }

    pub(crate) fn invalid(path: &str, value: impl Into<Value>, detail: impl Into<String>) -> FieldError {
        FieldError::new(path, ErrorKind::Invalid, Some(value.into()), detail)
    }

    pub(crate) fn required(path: &str, detail: &str) -> FieldError {
        FieldError::new(path, ErrorKind::Required, None, detail)
    }

    pub(crate) fn forbidden(path: &str, detail: impl Into<String>) -> FieldError {
        FieldError::new(path, ErrorKind::Forbidden, None, detail)
    }

    pub(crate) fn duplicate(path: &str, value: Value) -> FieldError {
        FieldError::new(path, ErrorKind::Duplicate, Some(value), "")
    }

    pub(crate) fn not_supported(path: &str, value: Value, supported: &[String]) -> FieldError {
        let quoted: Vec<_> = supported.iter().map(|s| gotext::quote(s)).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        FieldError::new(path, ErrorKind::NotSupported, Some(value), detail)
    }

    pub(crate) fn too_many(path: &str, actual: usize, most: i64) -> FieldError {
        let items = if most == 1 { "item" } else { "items" };
        FieldError::new(
            path,
            ErrorKind::TooMany,
            Some(Value::from(actual)),
            format!("must have at most {most} {items}"),
        )
    }

    pub(crate) fn too_long(path: &str, most: i64) -> FieldError {
        let bytes = if most == 1 { "byte" } else { "bytes" };
        FieldError::new(path, ErrorKind::TooLong, None, format!("may not be more than {most} {bytes}"))
    }

    /// The reason of the cause that reports this error.
    pub fn reason(&self) -> &'static str {
        self.kind.reason()
    }

    /// The message without the path: the message of a cause in a `Status`.
    pub fn body(&self) -> String {
        let mut body = self.kind.words().to_string();
        if let Some(value) = self.bad_value.as_ref().filter(|_| self.kind.shows_value()) {
            body.push_str(": ");
            match value {
                Value::String(text) => body.push_str(&gotext::quote(text)),
                Value::Number(number) => body.push_str(&gotext::number(gotext::Num::of(number))),
                other => body.push_str(&gotext::json(other)),
            }
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

impl std::error::Error for FieldError {}

/// So many errors of one object are told; then nothing more is checked. A body can hold a million wrong items.
pub(crate) const MOST_ERRORS: usize = 128;

/// How upstream prints the path of the object itself.
pub(crate) const ROOT: &str = "<nil>";

/// Why the schema of a CustomResourceDefinition is rejected. Never empty.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", join(.0))]
pub struct SchemaErrors(pub Vec<FieldError>);

fn join(errors: &[FieldError]) -> String {
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) }
}
