//! The differences between an object and its future state: by the table of costs if the kind is in it, by value
//! otherwise.

use capstan_distro::cost::{Subject, changes};
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

use super::report::Field;
use super::server::LAST_APPLIED;

/// Longer values are cut.
const MOST_CHARACTERS: usize = 80;

/// The subject of an object in the table of costs.
pub(super) fn subject(object: &DynamicObject) -> Option<Subject> {
    let types = object.types.as_ref()?;
    let group = types.api_version.split_once('/').map_or("", |(group, _)| group);
    let is_ours = group == "cluster.x-k8s.io" || group.ends_with(".cluster.x-k8s.io");
    Subject::of_kind(&types.kind).filter(|_| is_ours)
}

/// All fields that differ.
pub(super) fn fields(before: &DynamicObject, after: &DynamicObject) -> Vec<Field> {
    let (old, new) = (compared(before), compared(after));
    if let Some(subject) = subject(after) {
        return changes(subject, &old, &new).iter().map(Field::from).collect();
    }
    let is_secret = after.types.as_ref().is_some_and(|types| types.kind == "Secret");
    let mut found = Vec::new();
    walk(&[], Some(&old), Some(&new), is_secret, &mut found);
    found
}

/// The part of an object that the user sets: without status, and without the metadata of the API server and kubectl.
pub(super) fn compared(object: &DynamicObject) -> Value {
    let mut annotations = object.metadata.annotations.clone().unwrap_or_default();
    annotations.remove(LAST_APPLIED);
    let mut fields: Map<String, Value> = object.data.as_object().cloned().unwrap_or_default();
    fields.remove("status");
    fields.insert(
        "metadata".to_owned(),
        json!({"labels": object.metadata.labels.clone().unwrap_or_default(), "annotations": annotations}),
    );
    Value::Object(fields)
}

fn walk(path: &[&str], old: Option<&Value>, new: Option<&Value>, is_secret: bool, found: &mut Vec<Field>) {
    let set = |value: Option<&Value>| value.filter(|value| !value.is_null()).cloned();
    let (old, new) = (set(old), set(new));
    if old == new {
        return;
    }
    let is_map = |value: &Option<Value>| value.as_ref().is_none_or(Value::is_object);
    if is_map(&old) && is_map(&new) {
        let empty = Map::new();
        let (old, new) = (
            old.as_ref().and_then(Value::as_object).unwrap_or(&empty),
            new.as_ref().and_then(Value::as_object).unwrap_or(&empty),
        );
        for key in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
            let mut below = path.to_vec();
            below.push(key);
            walk(&below, old.get(key), new.get(key), is_secret, found);
        }
        return;
    }
    let is_hidden = is_secret && path.first().is_some_and(|first| *first != "metadata");
    let shown = |value: Option<Value>| match (value, is_hidden) {
        (None, _) => None,
        (Some(_), true) => Some("(changed)".to_owned()),
        (Some(Value::String(text)), false) => Some(cut(&text)),
        (Some(other), false) => Some(cut(&other.to_string())),
    };
    found.push(Field {
        field: path.join("."),
        from: shown(old),
        to: shown(new),
        cost: None,
        why: String::new(),
        origin: None,
    });
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).expect("an object")
    }

    fn plain(before: Value, after: Value) -> Vec<(String, Option<String>, Option<String>)> {
        let fields = fields(&object(before), &object(after));
        fields.into_iter().map(|field| (field.field, field.from, field.to)).collect()
    }

    #[test]
    fn secrets_are_not_shown() {
        let secret = |data: Value| {
            json!({"apiVersion": "v1", "kind": "Secret", "data": data, "metadata": {"name": "s",
                "annotations": {LAST_APPLIED: data.to_string()}}})
        };
        let shown = plain(secret(json!({"a": "b2xk", "b": "x"})), secret(json!({"a": "bmV3", "c": "y"})));
        let changed = || Some("(changed)".to_owned());
        let expected = [
            ("data.a".to_owned(), changed(), changed()),
            ("data.b".to_owned(), changed(), None),
            ("data.c".to_owned(), None, changed()),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn kinds_with_a_cost_table_are_compared_with_it() {
        let machine = |version: &str| {
            object(
                json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "m"},
                "spec": {"version": version}, "status": {"phase": version}}),
            )
        };
        let changed = fields(&machine("v1.36.0"), &machine("v1.36.1"));
        assert_eq!((changed.len(), changed[0].cost), (1, Some("drain and restart")));
        let other = |number: i32| {
            json!({"apiVersion": "v1", "kind": "Machine", "metadata": {"name": "m"},
            "spec": {"list": [number]}})
        };
        assert_eq!(
            plain(other(1), other(2)),
            [("spec.list".to_owned(), Some("[1]".to_owned()), Some("[2]".to_owned()))]
        );
    }
}
