//! Removes secrets from objects. Pure.
//!
//! The name of a field, the form of a value, and the content of a text decide what is redacted. In doubt a value is
//! redacted: a bundle with too little can be created again, but a leak cannot be undone.

mod keys;
mod text;

pub(super) use text::text;

use serde_json::{Map, Value, json};

/// Fields of which only the size is kept: contents of files, and data that may be anything.
const CONTENTS: [&str; 9] = [
    "content",
    "contentinline",
    "data",
    "stringdata",
    "binarydata",
    "userdata",
    "cloudconfig",
    "script",
    "inline",
];
/// What `kubectl apply` keeps: the whole object once more, secrets among it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Fields of a reference to a secret, which are no secret.
const OF_REFERENCES: [&str; 10] = [
    "name",
    "namespace",
    "key",
    "kind",
    "apiVersion",
    "apiGroup",
    "optional",
    "fieldPath",
    "resourceVersion",
    "uid",
];

/// The value without secrets, and without the managed fields of objects.
pub(super) fn value(value: &Value) -> Value {
    match value {
        Value::Object(fields) => object(fields),
        Value::Array(items) => array(items),
        Value::String(said) => Value::String(string(said)),
        other => other.clone(),
    }
}

/// The words of a command may have a flag and its value one after the other.
fn array(items: &[Value]) -> Value {
    let is_flag = |item: &Value| {
        item.as_str()
            .is_some_and(|word| word.starts_with('-') && !word.contains(['=', ' ']) && keys::is_secret(word))
    };
    let redacted =
        items.iter().enumerate().map(|(at, item)| match at.checked_sub(1).map(|before| &items[before]) {
            Some(before) if is_flag(before) => hidden(item),
            _ => value(item),
        });
    Value::Array(redacted.collect())
}

fn object(fields: &Map<String, Value>) -> Value {
    if fields.get("kind").is_some_and(|kind| kind == "Secret") && has_data(fields) {
        return super::secrets::summary(&Value::Object(fields.clone()));
    }
    let is_named_secret = named_secret(fields);
    let kept = fields.iter().filter(|(key, value)| !(*key == "managedFields" && value.is_array()));
    let redacted = kept.map(|(key, value)| {
        let value = match key.as_str() {
            "value" | "default" | "example" if is_named_secret => hidden(value),
            LAST_APPLIED => hidden(value),
            _ => field(key, value),
        };
        // A name may be chosen by users, too.
        (text(key), value)
    });
    Value::Object(redacted.collect())
}

fn has_data(fields: &Map<String, Value>) -> bool {
    ["data", "stringData"].iter().any(|key| fields.get(*key).is_some_and(Value::is_object))
}

/// `{name: DB_PASSWORD, value: …}`, as environments and variables of topologies are written.
fn named_secret(fields: &Map<String, Value>) -> bool {
    let name = ["name", "key"].iter().find_map(|key| fields.get(*key)?.as_str());
    name.is_some_and(keys::is_secret)
}

fn field(key: &str, found: &Value) -> Value {
    let is_content = CONTENTS.contains(&keys::plain(key).as_str());
    match found {
        Value::Object(_) | Value::Array(_) if keys::is_secret(key) || keys::is_reference(key) => {
            below_secret(found)
        }
        Value::Object(fields) if is_content => {
            Value::Object(fields.iter().map(|(key, value)| (text(key), sized(value))).collect())
        }
        Value::String(_) if is_content => sized(found),
        Value::String(_) | Value::Number(_) if keys::is_secret(key) => hidden(found),
        _ => value(found),
    }
}

/// Below the name of a secret only what refers to a Secret is kept.
fn below_secret(found: &Value) -> Value {
    match found {
        Value::Object(fields) => {
            let redacted = fields.iter().map(|(key, value)| {
                let is_reference =
                    OF_REFERENCES.contains(&key.as_str()) && !value.is_object() && !value.is_array();
                (text(key), if is_reference { self::value(value) } else { below_secret(value) })
            });
            Value::Object(redacted.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(below_secret).collect()),
        Value::Bool(_) | Value::Null => found.clone(),
        _ => hidden(found),
    }
}

/// A text that is JSON is redacted as JSON: annotations are often written so.
fn string(said: &str) -> String {
    match serde_json::from_str::<Value>(said) {
        Ok(inner @ (Value::Object(_) | Value::Array(_))) => value(&inner).to_string(),
        _ => text(said),
    }
}

fn hidden(found: &Value) -> Value {
    json!(format!("(redacted, {} bytes)", size(found)))
}

fn sized(found: &Value) -> Value {
    json!(format!("(left out, {} bytes)", size(found)))
}

fn size(found: &Value) -> usize {
    found.as_str().map_or_else(|| found.to_string().len(), str::len)
}

#[cfg(test)]
mod tests;
