//! Reading and writing the metadata every object has.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// The largest request, and the largest object as JSON. Otherwise patches could grow an object without a limit.
pub const MOST_BYTES: usize = 3 << 20;

/// The metadata, if the object has any.
pub fn metadata(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.as_object()
}

/// The metadata, made if it is absent. An object that is not a map is left alone by callers: the decoder
/// has refused it.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(Map::new());
    }
    match &mut object["metadata"] {
        Value::Object(map) => map,
        _ => unreachable!("made into a map just above"),
    }
}

/// A text of the metadata, empty if absent.
pub fn meta_str<'a>(object: &'a Value, field: &str) -> &'a str {
    metadata(object).and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// `metadata.name`, empty if absent.
pub fn name(object: &Value) -> &str {
    meta_str(object, "name")
}

/// `metadata.uid`, empty if absent.
pub fn uid(object: &Value) -> &str {
    meta_str(object, "uid")
}

/// `kind`, empty if absent.
pub fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or_default()
}

/// `apiVersion`, empty if absent.
pub fn api_version(object: &Value) -> &str {
    object.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
}

/// The group and version of an `apiVersion`.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// The `apiVersion` of a group and version.
pub fn join_api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// `metadata.finalizers`.
pub fn finalizers(object: &Value) -> Vec<&str> {
    list(object, "finalizers").iter().filter_map(Value::as_str).collect()
}

/// Replaces `metadata.finalizers`; an empty list is left out.
pub fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    let metadata = metadata_mut(object);
    if finalizers.is_empty() {
        metadata.shift_remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), finalizers.into());
    }
}

/// `metadata.ownerReferences`.
pub fn owner_references(object: &Value) -> &[Value] {
    list(object, "ownerReferences")
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    let found = metadata(object).and_then(|metadata| metadata.get(field)).and_then(Value::as_array);
    found.map_or(&[], Vec::as_slice)
}

/// Whether the object is being deleted.
pub fn is_terminating(object: &Value) -> bool {
    metadata(object).and_then(|m| m.get("deletionTimestamp")).is_some_and(|at| !at.is_null())
}

/// A time as Kubernetes writes it: UTC, whole seconds.
pub fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The value under a path of fields.
pub fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, field| value.get(field))
}

/// The text under a path of fields, empty if absent.
pub fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// Whether nothing in a value lies below more than so many lists and maps.
pub fn is_no_deeper(value: &Value, levels: usize) -> bool {
    let inside = |value| is_no_deeper(value, levels - 1);
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(inside),
        Value::Object(fields) => levels > 0 && fields.values().all(inside),
        _ => true,
    }
}
/// Writes numbers as upstream does: `2.0` and `2e0` become 2.
pub fn normalize_numbers(value: &mut Value) {
    // Beyond this, floats and integers are not each other's equals.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT);
            if let Some(whole) = whole {
                // Exact, as asked above.
                *value = (whole as i64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
        Value::Object(fields) => fields.values_mut().for_each(normalize_numbers),
        _ => {}
    }
}
