//! What upstream writes, byte by byte.

use serde_json::json;

use super::*;
use crate::decode;

#[test]
fn a_config_map_as_go_writes_it() {
    let object = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "m", "creationTimestamp": "2023-11-14T22:13:20Z"},
        "data": {"b": "2", "a": "1"},
    });
    let metadata = [
        b"\x0a\x01m\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x00\x38\x00".as_slice(),
        // The creation: seconds and no nanoseconds.
        b"\x42\x08\x08\x80\xe2\xcf\xaa\x06\x10\x00",
    ]
    .concat();
    let map = [
        &[0x0a, u8::try_from(metadata.len()).unwrap()],
        metadata.as_slice(),
        b"\x12\x06\x0a\x01a\x12\x011",
        b"\x12\x06\x0a\x01b\x12\x012",
    ]
    .concat();
    let expected = [
        b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12".as_slice(),
        &[u8::try_from(map.len()).unwrap()],
        &map,
        b"\x1a\0\x22\0",
    ]
    .concat();
    assert_eq!(encode(&object).unwrap(), expected);
}

#[test]
fn what_is_not_of_the_type_is_named() {
    let error = |object: Value| encode(&object).unwrap_err().to_string();
    let text = "the value of metadata.labels.a is not of the type that its field has in protobuf";
    assert_eq!(error(json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"labels": {"a": 1}}})), text);
    for (kind, object) in [
        ("Secret", json!({"data": {"a": "%"}})),
        ("Secret", json!({"metadata": {"creationTimestamp": "yesterday"}})),
        ("Secret", json!({"metadata": []})),
        ("Event", json!({"count": 1.5})),
        ("Pod", json!({"spec": {"containers": [{"resources": {"limits": {"cpu": {}}}}]}})),
    ] {
        let mut object = object;
        object["apiVersion"] = "v1".into();
        object["kind"] = kind.into();
        assert!(matches!(encode(&object), Err(EncodeError::WrongType { .. })), "{object}");
    }
    assert_eq!(
        error(json!({"kind": "Widget", "apiVersion": "example.org/v1"})),
        "Widget of example.org/v1 has no protobuf form here"
    );
}

#[test]
fn objects_that_nest_for_ever_are_refused() {
    let mut schema = json!({"type": "string"});
    for _ in 0..DEEPEST {
        schema = json!({"not": schema});
    }
    let definition = json!({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
        "spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]},
    });
    assert!(encode(&definition).is_err());
}

#[test]
fn other_spellings_of_a_value_are_written() {
    let object = json!({
        "kind": "Secret", "apiVersion": "v1", "data": {"a": "aG\nk="}, "immutable": null,
        "metadata": {"name": "s", "generation": 2.0, "creationTimestamp": "0001-01-01T00:00:00Z"},
    });
    let read = decode(&encode(&object).unwrap()).unwrap();
    assert_eq!(read["data"]["a"], "aGk=");
    assert_eq!(read["metadata"], json!({"name": "s", "generation": 2}));
}

#[test]
fn events_are_separated_by_their_length() {
    let object = encode(&json!({"kind": "Status", "apiVersion": "v1", "code": 410})).unwrap();
    let head = watch_frame("ERROR", object.len());
    let frame = [head, object.clone()].concat();
    let (length, event) = frame.split_at(4);
    assert_eq!(length, u32::try_from(event.len()).unwrap().to_be_bytes());
    assert_eq!(event[..7], *b"\x0a\x05ERROR");
    assert!(event.ends_with(&object));
    let inner = event[7..].strip_prefix(b"\x12").unwrap();
    let mut rest = inner;
    let length = crate::wire::varint(&mut rest).unwrap();
    assert_eq!(length, rest.len() as u64);
}
