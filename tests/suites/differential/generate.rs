//! Sequences of requests about one object: mostly good ones, with mistakes among them.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kinds::{NAMESPACE, TrialKind};
use crate::play::{APPLY, NAME, Request};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A handful of requests. The first one makes the object, as a rule.
pub(crate) fn sequence(kind: &TrialKind) -> impl Strategy<Value = Vec<Request>> + use<> {
    let kind = *kind;
    (create(kind), prop::collection::vec(request(kind), 1..7))
        .prop_map(|(first, rest)| [vec![first], rest].concat())
}

fn request(kind: TrialKind) -> impl Strategy<Value = Request> {
    prop_oneof![
        1 => create(kind),
        2 => get(kind),
        3 => update(kind),
        5 => patch(kind, MERGE),
        4 => json_patch(kind),
        2 => patch(kind, STRATEGIC),
        8 => apply(kind),
        2 => delete(kind),
        2 => list(kind),
    ]
}

/// An object with some fields, of which a few may be wrong.
fn object(kind: TrialKind, with_name: bool) -> impl Strategy<Value = Value> {
    let field = prop::sample::select(kind.fields.to_vec())
        .prop_flat_map(|(path, values)| (Just(path), prop::sample::select(values.to_vec())));
    prop::collection::vec(field, 0..4).prop_map(move |fields| {
        let base = if with_name { kind.base } else { "{}" };
        let mut object: Value = serde_json::from_str(base).unwrap();
        object["apiVersion"] = kind.api_version.into();
        object["kind"] = kind.name.into();
        object["metadata"] = if with_name { json!({"name": NAME}) } else { json!({}) };
        for (path, value) in fields {
            set(&mut object, path, serde_json::from_str(value).unwrap());
        }
        object
    })
}

/// Sets a field, unless something that is no object is in the way.
fn set(object: &mut Value, path: &str, value: Value) {
    let (folders, last) =
        path.rsplit_once('.').map_or((vec![], path), |(folders, last)| (folders.split('.').collect(), last));
    let mut place = object;
    for folder in folders {
        let Some(fields) = place.as_object_mut() else { return };
        place = fields.entry(folder).or_insert_with(|| json!({}));
    }
    if let Some(fields) = place.as_object_mut() {
        fields.insert(last.to_owned(), value);
    }
}

/// What may stand behind the question mark, for a write.
fn options() -> impl Strategy<Value = String> {
    let validation = prop::sample::select(vec![
        "",
        "",
        "&fieldValidation=Strict",
        "&fieldValidation=Warn",
        "&fieldValidation=Ignore",
    ]);
    let dry_run = prop::sample::select(vec!["", "", "", "", "&dryRun=All", "&dryRun=Some"]);
    let manager = prop::sample::select(vec!["&fieldManager=ann", "&fieldManager=bob", "&fieldManager=ann"]);
    (validation, dry_run, manager).prop_map(|(validation, dry_run, manager)| {
        format!("?{}", format!("{validation}{dry_run}{manager}").trim_start_matches('&'))
    })
}

/// The object itself, or a part of it; and what to write there.
fn target(kind: TrialKind, with_name: bool) -> impl Strategy<Value = (String, Value)> {
    (place(kind), object(kind, with_name), prop::sample::select(vec![1, 3, 6, 11, -1])).prop_map(move |(path, body, size)| {
        if !path.ends_with("/scale") {
            return (path, body);
        }
        let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {}, "spec": {"replicas": size}});
        if with_name {
            scale["metadata"] = json!({"name": NAME, "namespace": NAMESPACE});
        }
        (path, scale)
    })
}

fn place(kind: TrialKind) -> impl Strategy<Value = String> {
    let mut places = vec![format!("{}/{NAME}", kind.path); 4];
    places.extend(kind.subresources.iter().map(|part| format!("{}/{NAME}/{part}", kind.path)));
    prop::sample::select(places)
}

fn create(kind: TrialKind) -> impl Strategy<Value = Request> {
    (object(kind, true), options())
        .prop_map(move |(body, options)| Request::new("POST", format!("{}{options}", kind.path), JSON, body))
}

fn get(kind: TrialKind) -> impl Strategy<Value = Request> {
    place(kind).prop_map(|path| Request::new("GET", path, JSON, Value::Null))
}

fn update(kind: TrialKind) -> impl Strategy<Value = Request> {
    (target(kind, true), options(), any::<bool>()).prop_map(|((path, mut body), options, is_current)| {
        if is_current {
            set(&mut body, "metadata.resourceVersion", json!("@current"));
        }
        Request::new("PUT", path + &options, JSON, body)
    })
}

fn patch(kind: TrialKind, media: &'static str) -> impl Strategy<Value = Request> {
    (target(kind, false), options())
        .prop_map(move |((path, body), options)| Request::new("PATCH", path + &options, media, body))
}

fn apply(kind: TrialKind) -> impl Strategy<Value = Request> {
    let force = prop::sample::select(vec!["", "", "&force=true", "&force=false"]);
    // The real plane cannot apply the scale of a custom resource, and finds conflicts with nobody in others.
    let target = target(kind, true).prop_filter("cannot be applied", |(path, _)| !path.ends_with("/scale"));
    (target, options(), force).prop_map(|((path, body), options, force)| {
        Request::new("PATCH", format!("{path}{options}{force}"), APPLY, body)
    })
}

fn json_patch(kind: TrialKind) -> impl Strategy<Value = Request> {
    let step = prop::sample::select(kind.fields.to_vec()).prop_flat_map(|(path, values)| {
        let verb = prop::sample::select(vec!["add", "replace", "remove", "test", "copy", "move", "mistake"]);
        let value = prop::sample::select(values.to_vec());
        let end = prop::sample::select(vec!["", "", "", "/0", "/-", "/a", "/9"]);
        (verb, value, end).prop_map(move |(verb, value, end)| {
            let path = format!("/{}{end}", path.replace('.', "/"));
            let value: Value = serde_json::from_str(value).unwrap();
            match verb {
                "remove" => json!({"op": verb, "path": path}),
                "copy" | "move" => json!({"op": verb, "from": path, "path": "/metadata/annotations"}),
                _ => json!({"op": verb, "path": path, "value": value}),
            }
        })
    });
    // Of a scale the embedded plane looks at replicas only.
    let place = place(kind).prop_filter("has none of these fields", |path| !path.ends_with("/scale"));
    (place, prop::collection::vec(step, 1..3), options()).prop_map(|(path, steps, options)| {
        Request::new("PATCH", path + &options, JSON_PATCH, Value::Array(steps))
    })
}

fn delete(kind: TrialKind) -> impl Strategy<Value = Request> {
    let body = prop::sample::select(vec![
        Value::Null,
        json!({}),
        json!({"propagationPolicy": "Foreground"}),
        json!({"propagationPolicy": "Orphan"}),
        json!({"propagationPolicy": "Sideways"}),
        json!({"preconditions": {"uid": "another"}}),
        json!({"preconditions": {"resourceVersion": "@current"}}),
        json!({"preconditions": {"resourceVersion": "1"}}),
        json!({"dryRun": ["All"]}),
        json!({"gracePeriodSeconds": 0}),
    ]);
    body.prop_map(move |body| Request::new("DELETE", format!("{}/{NAME}", kind.path), JSON, body))
}

fn list(kind: TrialKind) -> impl Strategy<Value = Request> {
    let selector = prop::sample::select(vec![
        format!("?fieldSelector=metadata.name={NAME}"),
        format!("?fieldSelector=metadata.name={NAME}&labelSelector=a"),
        format!("?fieldSelector=metadata.name={NAME}&labelSelector=a%3D1"),
        format!("?fieldSelector=metadata.name={NAME}&labelSelector=a%20in%20(1,2),!c"),
        format!("?fieldSelector=metadata.name={NAME},spec.mode=Slow"),
        "?fieldSelector=spec.size=3".to_owned(),
        "?labelSelector=a%20b".to_owned(),
        format!("?limit=1&fieldSelector=metadata.name={NAME}"),
        "?resourceVersion=x".to_owned(),
    ]);
    selector
        .prop_map(move |selector| Request::new("GET", format!("{}{selector}", kind.path), JSON, Value::Null))
}
