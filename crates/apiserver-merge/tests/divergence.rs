//! All known and intended differences from a kube-apiserver. If a difference disappears, its test fails, so that this
//! list stays correct.

use capstan_apiserver_merge::{Shape, Write, apply, merge_patch, track_update};
use serde_json::{Value, json};

fn schema() -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    }}}})
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x", "uid": "u"}, "spec": spec})
}

fn write<'a>(shape: &'a Shape, manager: &'a str) -> Write<'a> {
    Write {
        shape,
        manager,
        api_version: "x/v1",
        subresource: None,
        now: "2026-01-01T00:00:00Z",
        reset: &[],
        blank: &Value::Null,
    }
}

/// Upstream leaves null where an applier takes the last entry of a map or list that another owns, and then refuses the
/// object, because the schema does not allow null. Here it is empty.
#[test]
fn what_is_emptied_but_owned_is_empty() {
    let shape = Shape::new(Some(&schema()));
    let (updater, applier) = (write(&shape, "updater"), write(&shape, "applier"));
    let mut live = object(&json!({"labels": {"a": "1"}, "tags": ["a"]}));
    live["metadata"].as_object_mut().unwrap().remove("uid");
    track_update(None, &mut live, &updater);
    live["metadata"]["uid"] = json!("u");
    let applied = object(&json!({"labels": {"b": "1"}, "tags": ["b"]}));
    let mut live = apply(Some(&live), &applied, &applier, false).unwrap().object;
    let before = live.clone();
    merge_patch(&mut live, &json!({"spec": {"labels": {"a": null}, "tags": ["b"]}})).unwrap();
    track_update(Some(&before), &mut live, &updater);
    let live = apply(Some(&live), &object(&json!({})), &applier, false).unwrap().object;
    assert_eq!(live["spec"], json!({"labels": {}, "tags": []}));
}

/// Upstream converts the object to the version of each manager before it looks at what that manager owns. Here the sets
/// of all managers are read as if they were written in the version at hand.
#[test]
fn managers_of_other_versions() {
    let shape = Shape::new(Some(&schema()));
    let mut live = object(&json!({"labels": {"a": "1"}}));
    live["metadata"]["managedFields"] = json!([{
        "manager": "old", "operation": "Apply", "apiVersion": "x/v0", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:labels": {"f:a": {}}}},
    }]);
    let conflict = apply(Some(&live), &object(&json!({"labels": {"a": "2"}})), &write(&shape, "new"), false);
    assert!(conflict.unwrap_err().to_string().contains("conflict with \"old\": .spec.labels.a"));
}
