//! Whether an intent has been applied already, determined from the object: its field manager owns exactly the intended
//! fields, and they have the intended values. Pure.
//!
//! `managedFields` lists the fields of a field manager as a tree of names: `f:` before a field, `k:` and `v:` before an item
//! of a list that several managers may share. A leaf is owned whole.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use kube::core::ObjectMeta;
use serde_json::{Map, Value};

/// What the names of field managers begin with whose entries are kept in memory. Entries of others can be half of an object, and
/// no controller reads them.
const MANAGERS: [&str; 3] = ["capi-machine", "capi-topology", "machinepool-controller"];
/// Fields that identify an object and that no field manager owns.
const NAMES: [&str; 6] = ["name", "namespace", "uid", "generateName", "resourceVersion", "creationTimestamp"];

/// Leaves of `managedFields` what [`is_applied`] reads, as text: a tree of small objects takes several times the room.
pub(crate) fn keep_own_fields(entries: &mut Vec<ManagedFieldsEntry>) {
    entries.retain(|entry| {
        let is_ours = entry
            .manager
            .as_ref()
            .is_some_and(|manager| MANAGERS.iter().any(|ours| manager.starts_with(ours)));
        is_ours && entry.operation.as_deref() == Some("Apply") && entry.subresource.is_none()
    });
    entries.shrink_to_fit();
    for entry in entries {
        entry.time = None;
        if let Some(FieldsV1(fields)) = &mut entry.fields_v1
            && fields.is_object()
        {
            *fields = Value::String(fields.to_string());
        }
    }
}

/// Whether applying `intent` as `manager` would change nothing of an object that has this metadata and reads `current`.
/// False if it cannot be determined.
pub(super) fn is_applied(manager: &str, meta: &ObjectMeta, intent: &Value, current: &Value) -> bool {
    let mut entries = meta.managed_fields.iter().flatten();
    let Some(entry) = entries.find(|entry| entry.manager.as_deref() == Some(manager)) else { return false };
    let fields = match &entry.fields_v1 {
        Some(FieldsV1(Value::String(text))) => serde_json::from_str(text).ok(),
        Some(FieldsV1(fields)) => Some(fields.clone()),
        None => None,
    };
    let version = intent.get("apiVersion").and_then(Value::as_str);
    let is_same_version = version.is_some() && entry.api_version.as_deref() == version;
    is_same_version && fields.is_some_and(|fields| owns(&fields, &fields_of(intent), current))
}

/// The intent without the fields that no field manager owns.
fn fields_of(intent: &Value) -> Value {
    let mut fields = intent.clone();
    if let Some(fields) = fields.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !NAMES.contains(&field.as_str()));
    }
    fields
}

/// Whether just what is in `wanted` is owned, and `current` has it.
fn owns(fields: &Value, wanted: &Value, current: &Value) -> bool {
    let none = Map::new();
    let children = fields.as_object().unwrap_or(&none);
    let children = || children.iter().filter(|(name, _)| *name != ".");
    if children().next().is_none() {
        return wanted == current;
    }
    match wanted {
        Value::Object(wanted) => {
            // A map without entries is owned, and is not there.
            let is_empty = |name: &str, owned: &Value| {
                let wanted = name.strip_prefix("f:").and_then(|name| wanted.get(name));
                wanted.is_some_and(is_nothing) && owned.as_object().is_none_or(Map::is_empty)
            };
            let owned = children().filter(|(name, owned)| !is_empty(name, owned)).count();
            let wanted = || wanted.iter().filter(|(_, value)| !is_nothing(value));
            owned == wanted().count()
                && wanted().all(|(name, value)| {
                    let owned = fields.get(format!("f:{name}"));
                    owned.is_some_and(|owned| owns(owned, value, current.get(name).unwrap_or(&Value::Null)))
                })
        }
        Value::Array(wanted) => {
            let current = current.as_array().map(Vec::as_slice).unwrap_or_default();
            children().count() == wanted.len()
                && children().all(|(name, fields)| owns_item(name, fields, wanted, current))
        }
        _ => false,
    }
}

/// Whether just what is wanted of one item of a list is owned, and the list has it.
fn owns_item(name: &str, fields: &Value, wanted: &[Value], current: &[Value]) -> bool {
    let Some((sort, text)) = name.split_once(':') else { return false };
    let Ok(text) = serde_json::from_str::<Value>(text) else { return false };
    match sort {
        "k" => {
            let of = |items: &[Value]| items.iter().position(|item| has(item, &text));
            let (Some(wanted), Some(present)) =
                (of(wanted).map(|at| &wanted[at]), of(current).map(|at| &current[at]))
            else {
                return false;
            };
            // An item that is owned whole may have more, which others have added.
            let is_whole = fields.as_object().is_none_or(|fields| fields.keys().all(|name| name == "."));
            if is_whole { has(present, wanted) } else { owns(fields, wanted, present) }
        }
        "v" => wanted.contains(&text) && current.contains(&text),
        _ => false,
    }
}

/// Whether an item of a list has all that is wanted of it.
fn has(present: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Object(wanted) => wanted
            .iter()
            .all(|(name, value)| is_nothing(value) || present.get(name).is_some_and(|p| has(p, value))),
        other => present == other,
    }
}

/// Null, and maps without entries.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_nothing),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn intent() -> Value {
        json!({
            "apiVersion": "g/v1", "kind": "K",
            "metadata": {"name": "a", "uid": "1", "labels": {"a": "b"}, "annotations": {},
                "ownerReferences": [{"uid": "2", "name": "o"}]},
            "spec": {"version": "v1", "selector": {"matchLabels": {"x": "y"}}, "deletion": {"seconds": 10}},
        })
    }

    fn fields() -> Value {
        json!({
            "f:metadata": {"f:annotations": {}, "f:labels": {"f:a": {}}, "f:ownerReferences": {"k:{\"uid\":\"2\"}": {}}},
            "f:spec": {"f:version": {}, "f:selector": {}, "f:deletion": {".": {}, "f:seconds": {}}},
        })
    }

    fn applied(fields: &Value, intent: &Value, current: &Value) -> bool {
        let entry = json!({"managedFields": [{"manager": "capi-machineset", "operation": "Apply",
            "apiVersion": "g/v1", "fieldsV1": fields, "time": "2026-01-01T00:00:00Z"},
            {"manager": "kubectl", "operation": "Update", "apiVersion": "g/v1", "fieldsV1": {"f:spec": {}}}]});
        let mut meta: ObjectMeta = serde_json::from_value(entry).expect("metadata");
        let whole = is_applied("capi-machineset", &meta, intent, current);
        keep_own_fields(meta.managed_fields.as_mut().expect("entries"));
        assert_eq!(meta.managed_fields.as_ref().map(Vec::len), Some(1));
        assert_eq!(
            is_applied("capi-machineset", &meta, intent, current),
            whole,
            "what is kept says the same"
        );
        whole
    }

    fn with(value: &Value, pointer: &str, new: Value) -> Value {
        let mut changed = value.clone();
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        changed.pointer_mut(parent).expect("a parent")[name] = new;
        changed
    }

    #[test]
    fn what_has_been_applied_is_known_from_the_object() {
        let mut current = intent();
        assert!(applied(&fields(), &intent(), &current));
        current["metadata"]["labels"]["theirs"] = json!("1");
        current["metadata"]["ownerReferences"] =
            json!([{"uid": "7"}, {"uid": "2", "name": "o", "controller": true}]);
        current["spec"]["providerID"] = json!("x");
        current["metadata"].as_object_mut().expect("metadata").remove("annotations");
        assert!(applied(&fields(), &intent(), &current), "what others add is theirs");
    }

    #[test]
    fn a_field_of_an_item_that_is_not_wanted_any_more_is_a_difference() {
        let fields = |item: Value| json!({"f:spec": {"f:taints": {"k:{\"key\":\"a\"}": item}}});
        let of = |item: Value| json!({"apiVersion": "g/v1", "kind": "K", "spec": {"taints": [item]}});
        let both = json!({".": {}, "f:key": {}, "f:value": {}});
        let (long, short) = (json!({"key": "a", "value": "b"}), json!({"key": "a"}));
        assert!(applied(&fields(both.clone()), &of(long.clone()), &of(long.clone())));
        assert!(!applied(&fields(both), &of(short.clone()), &of(long.clone())));
        let defaulted = json!({".": {}, "f:key": {}});
        assert!(applied(&fields(defaulted), &of(short), &of(long)), "a default is not the intent's");
    }

    #[test]
    fn any_difference_is_to_be_applied() {
        let cases = [
            ("another value", fields(), intent(), with(&intent(), "/spec/version", json!("v2"))),
            ("a value is gone", fields(), intent(), with(&intent(), "/metadata/labels", json!({}))),
            ("one more is wanted", fields(), with(&intent(), "/spec/new", json!(1)), intent()),
            ("one more is owned", with(&fields(), "/f:spec/f:old", json!({})), intent(), intent()),
            (
                "a label is not wanted any more",
                fields(),
                with(&intent(), "/metadata/labels", json!({})),
                intent(),
            ),
            ("an owner is gone", fields(), intent(), with(&intent(), "/metadata/ownerReferences", json!([]))),
            (
                "a map that is owned whole has one more",
                fields(),
                intent(),
                with(&intent(), "/spec/selector", json!({"matchLabels": {"x": "y", "z": "1"}})),
            ),
            ("another version", fields(), with(&intent(), "/apiVersion", json!("g/v2")), intent()),
        ];
        for (what, fields, intent, current) in cases {
            assert!(!applied(&fields, &intent, &current), "{what}");
        }
        assert!(
            !is_applied("capi-machineset", &ObjectMeta::default(), &intent(), &intent()),
            "nobody owns it"
        );
    }
}
