//! API objects as JSON: fields by path, metadata, references. No field has a meaning of its own here.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The value at a path, if every part of the path exists.
pub(crate) fn get<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, part| value.as_object()?.get(*part))
}

/// The text at a path; empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    get(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// Sets the value at a path. Parents that are not maps become maps.
pub(crate) fn set(object: &mut Value, path: &[&str], value: Value) {
    let Some((first, rest)) = path.split_first() else {
        *object = value;
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    if let Value::Object(fields) = object {
        set(fields.entry((*first).to_string()).or_insert(Value::Null), rest, value);
    }
}

/// Sets the value at a path, if there is a value.
pub(crate) fn set_some(object: &mut Value, path: &[&str], value: Option<Value>) {
    if let Some(value) = value {
        set(object, path, value);
    }
}

/// Removes the value at a path. Parents stay.
pub(crate) fn remove(object: &mut Value, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else { return };
    let parent = parents.iter().try_fold(object, |value, part| value.as_object_mut()?.get_mut(*part));
    if let Some(fields) = parent.and_then(Value::as_object_mut) {
        fields.shift_remove(*last);
    }
}

/// The map of texts at a path. Values that are not texts are left out.
pub(crate) fn texts(object: &Value, path: &[&str]) -> BTreeMap<String, String> {
    let fields = get(object, path).and_then(Value::as_object).into_iter().flatten();
    fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_string()))).collect()
}

/// Sets the map of texts at a path. An empty map is removed, because an absent field is not an empty one.
pub(crate) fn set_texts(object: &mut Value, path: &[&str], texts: &BTreeMap<String, String>) {
    if texts.is_empty() {
        remove(object, path);
    } else {
        set(object, path, json!(texts));
    }
}

pub(crate) const LABELS: &[&str] = &["metadata", "labels"];
pub(crate) const ANNOTATIONS: &[&str] = &["metadata", "annotations"];
pub(crate) const OWNERS: &[&str] = &["metadata", "ownerReferences"];
/// The annotation that kubectl writes.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The annotation that upstream's conversion writes.
pub(crate) const CONVERSION_DATA: &str = "cluster.x-k8s.io/conversion-data";

pub(crate) fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

pub(crate) fn kind(object: &Value) -> &str {
    text(object, &["kind"])
}

pub(crate) fn api_version(object: &Value) -> &str {
    text(object, &["apiVersion"])
}

/// The group of an API version: empty for the core group.
pub(crate) fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// `Kind.group`, as Kubernetes writes it.
pub(crate) fn group_kind(api_version: &str, kind: &str) -> String {
    match group_of(api_version) {
        "" => kind.to_string(),
        group => format!("{kind}.{group}"),
    }
}

/// A reference to an object by group, kind and name.
pub(crate) fn reference(object: &Value) -> Value {
    json!({"apiGroup": group_of(api_version(object)), "kind": kind(object), "name": name(object)})
}

/// Whether a value says nothing: null, or a map or list without entries.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// A value as JSON without entries that say nothing; `None` if nothing is left. For types whose fields are optional.
pub(crate) fn some(value: &impl serde::Serialize) -> Option<Value> {
    let mut value = serde_json::to_value(value).ok()?;
    drop_empty(&mut value);
    Some(value).filter(|value| !is_empty(value))
}

fn drop_empty(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, value| {
            drop_empty(value);
            !is_empty(value)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_written_by_path() {
        let mut object = json!({"spec": {"a": {"b": 1}, "text": "x"}});
        assert_eq!(get(&object, &["spec", "a", "b"]), Some(&json!(1)));
        assert_eq!(get(&object, &["spec", "text", "b"]), None);
        set(&mut object, &["spec", "text", "c"], json!(true));
        set(&mut object, &["status", "d"], json!(2));
        remove(&mut object, &["spec", "a", "b"]);
        remove(&mut object, &["spec", "x", "y"]);
        assert_eq!(object, json!({"spec": {"a": {}, "text": {"c": true}}, "status": {"d": 2}}));
    }

    #[test]
    fn empty_maps_are_absent() {
        let mut object = json!({"metadata": {"labels": {"a": "b"}}});
        set_texts(&mut object, LABELS, &BTreeMap::new());
        assert_eq!(object, json!({"metadata": {}}));
        assert_eq!(some(&json!({"a": {"b": {}, "c": null}})), None);
        assert_eq!(some(&json!({"a": {"b": 0, "c": []}})), Some(json!({"a": {"b": 0}})));
    }

    #[test]
    fn groups_are_read_from_api_versions() {
        assert_eq!(group_kind("v1", "Secret"), "Secret");
        assert_eq!(
            group_kind("infrastructure.cluster.x-k8s.io/v1beta2", "X"),
            "X.infrastructure.cluster.x-k8s.io"
        );
    }
}
