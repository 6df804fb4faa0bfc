//! Validates embedded resources: `apiVersion` and `kind` are required, and `metadata` is that of any object.

use crate::error::FieldError;
use crate::node::{Additional, Node};
use crate::path::{child, index, key};
use serde_json::{Map, Value};

/// The message of a kube-apiserver for a name that is not an RFC 1035 label.
pub const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// What is wrong with the type and metadata of embedded resources.
pub(crate) fn check(node: &Node, object: &Value, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    value(node, object, at, &mut errors);
    errors
}

fn value(node: &Node, value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if node.embedded {
                resource(fields, at, errors);
            }
            for (name, field) in fields {
                if let Some(schema) = node.properties.get(name) {
                    self::value(schema, field, &child(at, name), errors);
                } else if let Some(Additional::Schema(schema)) = &node.additional {
                    self::value(schema, field, &key(at, name), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &node.items {
                for (i, item) in items.iter().enumerate() {
                    self::value(schema, item, &index(at, i), errors);
                }
            }
        }
        _ => {}
    }
}

fn resource(fields: &Map<String, Value>, at: &str, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let at = child(at, name);
        match fields.get(name) {
            None => errors.push(FieldError::required(&at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(&at, "", "must not be empty"));
            }
            Some(Value::String(text)) if name == "kind" => kind(text, &at, errors),
            Some(Value::String(text)) if text.matches('/').count() > 1 => {
                let why = format!("unexpected GroupVersion string: {text}");
                errors.push(FieldError::invalid(&at, text.as_str(), why));
            }
            Some(Value::String(_)) => {}
            Some(other) => errors.push(FieldError::invalid(&at, other.clone(), "must be a string")),
        }
    }
    match fields.get("metadata") {
        None => {}
        Some(Value::Object(meta)) => metadata(meta, &child(at, "metadata"), errors),
        Some(other) => {
            let at = child(at, "metadata");
            errors.push(FieldError::invalid(&at, other.clone(), "must be an object"));
        }
    }
}

fn kind(kind: &str, at: &str, errors: &mut Vec<FieldError>) {
    let lower = kind.to_lowercase();
    let bytes = lower.as_bytes();
    let mut why = Vec::new();
    if lower.len() > 63 {
        why.push("must be no more than 63 bytes");
    }
    let word = bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == b'-');
    if !word {
        why.push(LABEL_1035);
    }
    if !why.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", why.join(","));
        errors.push(FieldError::invalid(at, kind, why));
    }
}

/// Types of the fields that hold text, and names that cannot be part of a path.
fn metadata(meta: &Map<String, Value>, at: &str, errors: &mut Vec<FieldError>) {
    for name in ["name", "generateName", "namespace", "uid", "resourceVersion"] {
        if let Some(other) = meta.get(name).filter(|value| !value.is_string() && !value.is_null()) {
            errors.push(FieldError::invalid(&child(at, name), other.clone(), "must be a string"));
        }
    }
    for name in ["labels", "annotations"] {
        let Some(entries) = meta.get(name).filter(|value| !value.is_null()) else { continue };
        let texts = entries.as_object().is_some_and(|entries| entries.values().all(Value::is_string));
        if !texts {
            errors.push(FieldError::invalid(&child(at, name), entries.clone(), "must be a map of strings"));
        }
    }
    let Some(name) = meta.get("name").and_then(Value::as_str) else { return };
    let name_at = child(at, "name");
    if name == "." || name == ".." {
        errors.push(FieldError::invalid(&name_at, name, format!("may not be '{name}'")));
    }
    for illegal in ['/', '%'].into_iter().filter(|illegal| name.contains(*illegal)) {
        errors.push(FieldError::invalid(&name_at, name, format!("may not contain '{illegal}'")));
    }
}
