//! `uniqueItems`, which schemas of variables may have and schemas of custom resources may not.

use crate::field;
use capstan_apiserver_schema::FieldError;
use serde_json::Value;

/// Adds an error for every list with equal items whose schema forbids them.
pub(super) fn check(written: &Value, value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Array(items) => {
            if written.get("uniqueItems") == Some(&Value::Bool(true)) && has_equal(items) {
                errors.push(field::invalid(
                    at,
                    value.clone(),
                    format!("{at} in body shouldn't contain duplicates"),
                ));
            }
            if let Some(schema) = written.get("items") {
                for (i, item) in items.iter().enumerate() {
                    check(schema, item, &field::entry(at, i), errors);
                }
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let property = written.get("properties").and_then(|properties| properties.get(name));
                if let Some(schema) = property.or_else(|| written.get("additionalProperties")) {
                    check(schema, value, &field::child(at, name), errors);
                }
            }
        }
        _ => {}
    }
}

fn has_equal(items: &[Value]) -> bool {
    items.iter().enumerate().any(|(i, item)| items[..i].contains(item))
}
