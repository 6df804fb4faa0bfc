//! How both planes show the same objects: lists in pages, tables, metadata alone, watches with selectors, and the protobuf
//! form of built-in kinds.

use std::collections::BTreeSet;

use capstan_tests::Caller;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::kinds::{KINDS, TrialKind};
use crate::play::Planes;
use crate::same;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// On all objects of this trial, because the real plane has others beside them.
const OURS: &str = "trial=reading";
/// Objects of each kind.
const OBJECTS: usize = 7;
/// Readings of each kind.
const READINGS: usize = 8;
/// Pages that a list may have: more is a list without end.
const MOST_PAGES: usize = 2 * OBJECTS;

/// Who reads how.
#[derive(Clone, Debug)]
struct Reading {
    /// With `{start}` for the revision before the objects were created.
    query: String,
    accept: &'static str,
    is_watch: bool,
}

/// Everything that differs, for each kind once.
pub(crate) async fn differences(planes: &Planes, runner: &mut TestRunner) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for kind in KINDS.iter().filter(|kind| seen.insert(kind.path)) {
        let start = populate(planes, kind, runner).await;
        for _ in 0..READINGS {
            let reading = reading().new_tree(runner).unwrap().current();
            found.extend(difference(planes, kind, &reading, &start).await);
        }
        // A custom kind has no protobuf form, and some built-in kinds are filled in by the real plane.
        if kind.api_version != "trial.capstan.dev/v1" && !kind.is_only_stored() {
            found.extend(protobuf_difference(planes, kind).await);
        }
    }
    found
}

/// Creates objects and changes some of them. Returns the revision before that, of each plane.
async fn populate(planes: &Planes, kind: &TrialKind, runner: &mut TestRunner) -> [String; 2] {
    let mut start = [String::new(), String::new()];
    for (plane, start) in planes.each().into_iter().zip(&mut start) {
        let listed = plane.ask("GET", kind.path, &Value::Null).await.unwrap();
        listed.body["metadata"]["resourceVersion"].as_str().unwrap().clone_into(start);
    }
    let changes = (0..OBJECTS).map(|_| change().new_tree(runner).unwrap().current()).collect::<Vec<_>>();
    for plane in planes.each() {
        for number in 0..OBJECTS {
            let made = plane.ask("POST", kind.path, &object(kind, number)).await.unwrap();
            assert_eq!(made.code, 201, "{made:?}");
        }
        for (number, change) in changes.iter().enumerate() {
            let path = format!("{}/r{number}", kind.path);
            let changed = match change {
                None => plane.ask("DELETE", &path, &Value::Null).await.unwrap(),
                Some(labels) => {
                    let patch = json!({"metadata": {"labels": labels}}).to_string().into_bytes();
                    plane.send("PATCH", &path, MERGE, patch, &[]).await.unwrap()
                }
            };
            assert_eq!(changed.code, 200, "{changed:?}");
        }
    }
    start
}

fn object(kind: &TrialKind, number: usize) -> Value {
    let mut object: Value = serde_json::from_str(kind.base).unwrap();
    object["apiVersion"] = kind.api_version.into();
    object["kind"] = kind.name.into();
    let labels = json!({"trial": "reading", "a": (number % 3).to_string()});
    object["metadata"] = json!({"name": format!("r{number}"), "labels": labels});
    object
}

/// Labels that an object gets, or `None` if it is deleted.
fn change() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        1 => Just(None),
        2 => Just(Some(json!({"a": "1"}))),
        1 => Just(Some(json!({"a": null}))),
        1 => Just(Some(json!({"b": "x"}))),
    ]
}

fn reading() -> impl Strategy<Value = Reading> {
    let selector = prop::sample::select(vec!["", ",a=1", ",a%20in%20(0,2)", ",!a", ",a!=2", ",b"]);
    let accept = prop::sample::select(vec![
        JSON,
        TABLE,
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ]);
    let list =
        (selector.clone(), accept, prop::sample::select(vec!["", "&limit=1", "&limit=2", "&limit=50"]))
            .prop_map(|(selector, accept, limit)| Reading {
                query: format!("?labelSelector={OURS}{selector}{limit}"),
                accept,
                is_watch: false,
            });
    let accept = prop::sample::select(vec![
        JSON,
        JSON,
        TABLE,
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    ]);
    let from = prop::sample::select(vec![
        "&resourceVersion={start}",
        "&resourceVersion={start}",
        // What there is, as if it had just been created.
        "",
        "&resourceVersion=0",
        "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    ]);
    let watch = (selector, accept, from).prop_map(|(selector, accept, from)| Reading {
        query: format!("?watch=1&timeoutSeconds=1&labelSelector={OURS}{selector}{from}"),
        accept,
        is_watch: true,
    });
    prop_oneof![list, watch]
}

async fn difference(
    planes: &Planes,
    kind: &TrialKind,
    reading: &Reading,
    start: &[String; 2],
) -> Option<String> {
    let [real, embedded] = planes.each();
    let (real, embedded) =
        tokio::join!(read(real, kind, reading, &start[0]), read(embedded, kind, reading, &start[1]));
    let found = same::difference_of_values(&real, &embedded, kind.left_alone)?;
    Some(format!("  GET {}{} as {}\n{found}", kind.path, reading.query, reading.accept))
}

/// Everything that a plane shows: pages of a list, or events of a watch.
async fn read(plane: &Caller, kind: &TrialKind, reading: &Reading, start: &str) -> Value {
    let path = format!("{}{}", kind.path, reading.query.replace("{start}", start));
    let (mut shown, mut next) = (Vec::new(), Some(path.clone()));
    while let Some(path_of_page) = next.take() {
        let fetched = plane.fetch("GET", &path_of_page, "", Vec::new(), &[("accept", reading.accept)]).await;
        let (head, bytes) = fetched.unwrap();
        let media = head.headers.get("content-type").map(|media| media.to_str().unwrap().to_owned());
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let mut documents: Vec<Value> = lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
        // When bookmarks come is chance, but for the one after what there was at the beginning.
        let is_end = |object: &Value| object.to_string().contains("initial-events-end");
        documents.retain(|document| document["type"] != "BOOKMARK" || is_end(&document["object"]));
        for bookmark in documents.iter_mut().filter(|document| document["type"] == "BOOKMARK") {
            empty_object(&mut bookmark["object"]);
        }
        // An empty list is null on the real plane for some kinds.
        for list in documents.iter_mut() {
            for field in ["items", "rows"] {
                if let Some(items) = list.get_mut(field).filter(|items| items.is_null()) {
                    *items = json!([]);
                }
            }
        }
        let token = documents.last().and_then(|last| last["metadata"]["continue"].as_str());
        let token = token.filter(|token| !token.is_empty());
        next = token.filter(|_| !reading.is_watch && shown.len() < MOST_PAGES).map(|token| {
            let token: String = form_urlencoded(token);
            format!("{path}&continue={token}")
        });
        let mut documents = Value::Array(documents);
        without_ages(&mut documents);
        shown.push(json!({"code": head.status.as_u16(), "media": media, "documents": documents}));
    }
    if !reading.is_watch {
        last_page(&mut shown);
    }
    Value::Array(shown)
}

/// A bookmark has an object that is empty but for its revision. What upstream computes from the zero values of its type does not
/// matter to clients.
fn empty_object(object: &mut Value) {
    for row in object["rows"].as_array_mut().into_iter().flatten() {
        row["cells"] = Value::Null;
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("replicas");
    }
}

/// With a selector the real plane may find only in the next page that there is nothing more.
fn last_page(pages: &mut Vec<Value>) {
    let is_empty = |page: &Value| {
        let list = &page["documents"][0];
        [&list["items"], &list["rows"]].iter().all(|items| items.as_array().is_none_or(Vec::is_empty))
    };
    if pages.len() > 1 && pages.last().is_some_and(is_empty) {
        pages.pop();
    }
    let metadata = pages.last_mut().and_then(|page| page.pointer_mut("/documents/0/metadata"));
    metadata.and_then(Value::as_object_mut).map(|metadata| metadata.remove("continue"));
}

/// Bytes that have a meaning in a query, escaped.
fn form_urlencoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// Without what depends on the second, and tokens, which mean something only to who issued them.
fn without_ages(value: &mut Value) {
    // `9s`, or `2m3s` on a busy machine.
    let is_age = |text: &str| {
        let is_of_age = |byte: u8| byte.is_ascii_digit() || b"smhd".contains(&byte);
        text.len() > 1
            && text.starts_with(|first: char| first.is_ascii_digit())
            && text.ends_with(['s', 'm', 'h', 'd'])
            && text.bytes().all(is_of_age)
    };
    // Some kinds have a column with the time of creation, and the planes created their objects one after the other.
    let is_time = |text: &str| text.len() == 20 && text.as_bytes()[10] == b'T' && text.ends_with('Z');
    match value {
        Value::String(text) if is_age(text) => *text = "some age".to_owned(),
        Value::Object(fields) => {
            if let Some(token) = fields.get_mut("continue").filter(|token| *token != "") {
                *token = "some token".into();
            }
            // Columns of built-in kinds are described by the real plane alone.
            if fields.contains_key("priority") && fields.contains_key("format") {
                fields.remove("description");
            }
            for cell in fields.get_mut("cells").and_then(Value::as_array_mut).into_iter().flatten() {
                if cell.as_str().is_some_and(is_time) {
                    *cell = "some time".into();
                }
            }
            fields.values_mut().for_each(without_ages);
        }
        Value::Array(items) => items.iter_mut().for_each(without_ages),
        _ => {}
    }
}

/// What the real plane writes as protobuf is read by the embedded one as what it was, and both show their objects in the same
/// bytes but for what is never the same.
async fn protobuf_difference(planes: &Planes, kind: &TrialKind) -> Option<String> {
    let path = format!("{}?dryRun=All&fieldManager=ann", kind.path);
    let mut object = object(kind, 0);
    object["metadata"]["name"] = "as-protobuf".into();
    let body = object.to_string().into_bytes();
    let [real, embedded] = planes.each();
    let (head, bytes) = real.fetch("POST", &path, JSON, body, &[("accept", PROTOBUF)]).await.unwrap();
    assert_eq!(head.status.as_u16(), 201, "{}", String::from_utf8_lossy(&bytes));
    assert!(bytes.starts_with(b"k8s\0"), "{}", kind.name);
    let [one, other] =
        [real, embedded].map(|plane| plane.send("POST", &path, PROTOBUF, bytes.clone(), &[("accept", JSON)]));
    let (one, other) = tokio::join!(one, other);
    let mut differences =
        same::difference(&one.unwrap(), &other.unwrap(), kind.left_alone).unwrap_or_default();
    let shown = |plane: &'static str, bytes: &[u8]| {
        let object = capstan_apiserver_proto::decode(bytes).unwrap();
        let again = capstan_apiserver_proto::encode(&object).unwrap();
        let is_same = again == bytes;
        (
            object,
            if is_same { String::new() } else { format!("    {plane}: other bytes when written again\n") },
        )
    };
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    for accept in [PROTOBUF, metadata] {
        let path = format!("{}?labelSelector={OURS}", kind.path);
        let headers = [("accept", accept)];
        let [one, other] =
            [real, embedded].map(|plane| plane.fetch("GET", &path, JSON, Vec::new(), &headers));
        let ((_, one), (_, other)) = (one.await.unwrap(), other.await.unwrap());
        let ((one, real_bytes), (other, embedded_bytes)) = (shown("real", &one), shown("embedded", &other));
        differences += &real_bytes;
        differences += &embedded_bytes;
        differences += &same::difference_of_values(&one, &other, kind.left_alone).unwrap_or_default();
    }
    (!differences.is_empty()).then(|| format!("  protobuf of {}\n{differences}", kind.name))
}
