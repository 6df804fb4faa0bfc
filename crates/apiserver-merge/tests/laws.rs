//! Properties of every apply and every update.

#![cfg(test)]

use capstan_apiserver_merge::{
    Applied, ApplyError, Element, FieldSet, Shape, Write, apply, keep_unchanged_times, merge_patch,
    track_update,
};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

fn schema() -> Value {
    let item = json!({
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "value": {"type": "string"}, "tags": {
            "type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"},
        }},
    });
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "args": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item},
    }}}})
}

fn word() -> impl Strategy<Value = String> {
    "[a-d]".prop_map(String::from)
}

fn words() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(word(), word(), 0..3)
}

fn unique(words: Vec<String>) -> Vec<String> {
    let mut seen = Vec::new();
    for word in words {
        if !seen.contains(&word) {
            seen.push(word);
        }
    }
    seen
}

fn items() -> impl Strategy<Value = Value> {
    let tags = vec(word(), 1..3).prop_map(unique);
    vec((word(), of(word()), of(tags)), 1..4).prop_map(|items| {
        let mut by_name: BTreeMap<String, Value> = BTreeMap::new();
        for (name, value, tags) in items {
            let mut item = json!({"name": name});
            item.as_object_mut().unwrap().extend(value.map(|value| ("value".to_string(), json!(value))));
            item.as_object_mut().unwrap().extend(tags.map(|tags| ("tags".to_string(), json!(tags))));
            by_name.insert(name, item);
        }
        by_name.into_values().rev().collect()
    })
}

/// Sets and maps of lists are not empty: nobody owns an empty one, here as upstream, and what nobody owns obeys no law.
fn spec() -> impl Strategy<Value = Value> {
    let free = of(btree_map(
        word(),
        prop_oneof![word().prop_map(Value::from), words().prop_map(|map| json!(map))],
        0..3,
    ));
    let tags = of(vec(word(), 1..4).prop_map(unique));
    (of(0..3_i64), tags, of(vec(word(), 0..3)), of(words()), of(words()), free, of(items())).prop_map(
        |(size, tags, args, labels, whole, free, items)| {
            let mut spec = Map::new();
            let mut put =
                |name: &str, value: Option<Value>| spec.extend(value.map(|value| (name.to_string(), value)));
            put("size", size.map(Value::from));
            put("tags", tags.map(|tags| json!(tags)));
            put("args", args.map(|args| json!(args)));
            put("labels", labels.map(|labels| json!(labels)));
            put("whole", whole.map(|whole| json!(whole)));
            put("free", free.map(|free| json!(free)));
            put("items", items);
            Value::Object(spec)
        },
    )
}

/// Who writes, whether by apply, and what.
fn writes() -> impl Strategy<Value = Vec<(String, bool, Value)>> {
    vec((word(), any::<bool>(), spec()), 1..6)
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec})
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

/// The object after a number of writes, all forced.
fn after(shape: &Shape, writes: &[(String, bool, Value)]) -> Option<Value> {
    let mut live: Option<Value> = None;
    for (manager, applied, spec) in writes {
        let write = write(shape, manager);
        let mut next = if *applied {
            apply(live.as_ref(), &object(spec), &write, true).unwrap().object
        } else {
            let mut next = live.clone().unwrap_or_else(|| object(&json!({})));
            merge_patch(&mut next, &json!({"spec": spec})).unwrap();
            track_update(live.as_ref(), &mut next, &write);
            next
        };
        next["metadata"]["uid"] = json!("u");
        live = Some(next);
    }
    live
}

fn owned(object: &Value) -> Vec<FieldSet> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    entries.iter().map(|entry| FieldSet::from_v1(&entry["fieldsV1"]).unwrap()).collect()
}

/// Whether there is anything at a path.
fn has(value: &Value, path: &[Element]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    let found = match first {
        Element::Field(name) => value.get(name),
        Element::Key(keys) => {
            let matches = |item: &&Value| keys.iter().all(|(name, key)| item.get(name) == Some(key));
            value.as_array().into_iter().flatten().find(matches)
        }
        Element::Value(wanted) => value.as_array().into_iter().flatten().find(|item| *item == wanted),
        Element::Index(_) => None,
    };
    found.is_some_and(|found| has(found, rest))
}

/// Whether `object` says everything that `applied` says.
fn says(object: &Value, applied: &Value) -> bool {
    match (object, applied) {
        (Value::Object(object), Value::Object(applied)) => {
            applied.iter().all(|(name, applied)| object.get(name).is_some_and(|object| says(object, applied)))
        }
        (Value::Array(object), Value::Array(applied)) => {
            applied.iter().all(|applied| object.iter().any(|object| says(object, applied)))
        }
        (object, applied) => object == applied,
    }
}

proptest! {
    #[test]
    fn applying_again_changes_nothing(writes in writes(), spec in spec()) {
        let shape = Shape::new(Some(&schema()));
        let write = write(&shape, "applier");
        let first = apply(after(&shape, &writes).as_ref(), &object(&spec), &write, true).unwrap().object;
        let later = Write { now: "2026-01-01T00:00:01Z", ..write };
        let Applied { object: mut second, changed } = apply(Some(&first), &object(&spec), &later, false).unwrap();
        prop_assert!(!changed);
        keep_unchanged_times(&first, &mut second);
        prop_assert_eq!(first, second);
    }

    #[test]
    fn what_is_owned_is_there(writes in writes()) {
        let shape = Shape::new(Some(&schema()));
        let object = after(&shape, &writes).unwrap();
        for set in owned(&object) {
            for path in set.paths() {
                prop_assert!(has(&object, &path), "{:?} of {}", path, object);
            }
        }
    }

    #[test]
    fn what_is_applied_with_force_is_said(writes in writes(), spec in spec()) {
        let shape = Shape::new(Some(&schema()));
        let applied = apply(after(&shape, &writes).as_ref(), &object(&spec), &write(&shape, "applier"), true).unwrap();
        prop_assert!(says(&applied.object["spec"], &spec), "{} does not say {}", applied.object["spec"], spec);
    }

    #[test]
    fn without_force_others_keep_what_they_own(writes in writes(), spec in spec()) {
        let shape = Shape::new(Some(&schema()));
        let before = after(&shape, &writes).unwrap();
        let owners = |object: &Value| -> Vec<FieldSet> {
            let mut object = object.clone();
            let entries = object["metadata"]["managedFields"].as_array_mut().unwrap();
            entries.retain(|entry| entry["manager"] != "applier");
            owned(&object)
        };
        match apply(Some(&before), &object(&spec), &write(&shape, "applier"), false) {
            Ok(applied) => prop_assert_eq!(owners(&before), owners(&applied.object)),
            Err(ApplyError::Conflicts(conflicts)) => prop_assert!(!conflicts.0.is_empty()),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn a_sole_applier_takes_everything_back(spec in spec()) {
        let shape = Shape::new(Some(&schema()));
        let write = write(&shape, "applier");
        let first = apply(None, &object(&spec), &write, false).unwrap().object;
        let mut nothing = object(&json!({}));
        nothing.as_object_mut().unwrap().remove("spec");
        let second = apply(Some(&first), &nothing, &write, false).unwrap().object;
        prop_assert!(second.get("spec").is_none(), "{}", second);
        prop_assert!(second["metadata"].get("managedFields").is_none(), "{}", second);
    }

    #[test]
    fn sets_survive_being_written(spec in spec()) {
        let shape = Shape::new(Some(&schema()));
        let set = shape.field_set(&object(&spec));
        prop_assert_eq!(FieldSet::from_v1(&set.to_v1()), Ok(set));
    }

    #[test]
    fn sets_are_sets(a in spec(), b in spec()) {
        let shape = Shape::new(Some(&schema()));
        let (a, b) = (shape.field_set(&a), shape.field_set(&b));
        let union = a.clone().union(b.clone());
        prop_assert_eq!(&union.clone().difference(&b).union(b.clone()), &union);
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert!(a.clone().difference(&a).is_empty());
        prop_assert_eq!(a.clone().difference(&b).union(a.intersection(&b)), a);
    }

    #[test]
    fn writing_what_is_there_is_no_write(writes in writes()) {
        let shape = Shape::new(Some(&schema()));
        let before = after(&shape, &writes).unwrap();
        let mut same = before.clone();
        let write = Write { now: "2026-01-01T00:00:09Z", ..write(&shape, "someone") };
        track_update(Some(&before), &mut same, &write);
        keep_unchanged_times(&before, &mut same);
        prop_assert_eq!(before, same);
    }
}
