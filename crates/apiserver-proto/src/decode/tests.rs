//! Bodies written by hand, byte by byte.

use serde_json::json;

use super::*;

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let [low, ..] = (value & 0x7f).to_le_bytes();
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: u64, parts: &[Vec<u8>]) -> Vec<u8> {
    let content = parts.concat();
    [varint(field << 3 | 2), varint(content.len() as u64), content].concat()
}

fn word(field: u64, value: &str) -> Vec<u8> {
    bytes(field, &[value.as_bytes().to_vec()])
}

fn body(api_version: &str, kind: &str, parts: &[Vec<u8>]) -> Vec<u8> {
    let envelope =
        [bytes(1, &[word(1, api_version), word(2, kind)]), bytes(2, parts), word(3, ""), word(4, "")];
    [MAGIC.to_vec(), envelope.concat()].concat()
}

fn entry(key: &str, value: &str) -> Vec<u8> {
    [word(1, key), word(2, value)].concat()
}

#[test]
fn a_secret_as_go_sends_it() {
    let metadata = bytes(
        1,
        &[
            word(1, "s"),
            word(2, ""),
            word(3, "default"),
            number(7, 0),
            bytes(8, &[]),
            bytes(11, &[entry("app", "x")]),
            bytes(13, &[word(1, "Owner"), word(3, "o"), word(4, "uid"), word(5, "v1"), number(6, 0)]),
        ],
    );
    let secret = body(
        "v1",
        "Secret",
        &[metadata, bytes(2, &[entry("k", "v")]), word(3, "Opaque"), number(5, 0), word(99, "of the future")],
    );
    assert_eq!(
        decode(&secret).unwrap(),
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": "s", "namespace": "default", "labels": {"app": "x"},
                "ownerReferences": [
                    {"kind": "Owner", "name": "o", "uid": "uid", "apiVersion": "v1", "controller": false},
                ],
            },
            "data": {"k": "dg=="}, "type": "Opaque",
            // A pointer that was sent is meant; the zero values of the others are not.
            "immutable": false,
        })
    );
}

#[test]
fn times_numbers_and_choices() {
    let renewed = bytes(4, &[number(1, 1_700_000_000), number(2, 123_456_000)]);
    let lease =
        body("coordination.k8s.io/v1", "Lease", &[bytes(2, &[word(1, "me"), number(2, 15), renewed])]);
    assert_eq!(
        decode(&lease).unwrap()["spec"],
        json!({
            "holderIdentity": "me", "leaseDurationSeconds": 15,
            "renewTime": "2023-11-14T22:13:20.123456Z",
        })
    );
    let negative = body("v1", "Event", &[number(8, (-1_i64).cast_unsigned())]);
    assert_eq!(decode(&negative).unwrap()["count"], -1);
    let port = |target: Vec<u8>| {
        let port = bytes(1, &[number(3, 80), bytes(4, &[target])]);
        decode(&body("v1", "Service", &[bytes(2, &[port])])).unwrap()["spec"]["ports"][0]["targetPort"]
            .clone()
    };
    assert_eq!(port([number(1, 0), number(2, 8080), word(3, "")].concat()), 8080);
    assert_eq!(port([number(1, 1), number(2, 0), word(3, "http")].concat()), "http");
    let extra = bytes(6, &[word(1, "k"), bytes(2, &[word(1, "a"), word(1, "b")])]);
    let request = body("certificates.k8s.io/v1", "CertificateSigningRequest", &[bytes(2, &[extra])]);
    assert_eq!(decode(&request).unwrap()["spec"]["extra"], json!({"k": ["a", "b"]}));
}

#[test]
fn inlined_messages_and_options() {
    let selector = bytes(1, &[word(1, "map")]);
    let from = bytes(3, &[bytes(3, &[selector, word(2, "key")])]);
    let container = bytes(2, &[word(1, "c"), bytes(7, &[word(1, "E"), from])]);
    let pod = decode(&body("v1", "Pod", &[bytes(2, &[container])])).unwrap();
    let env = &pod["spec"]["containers"][0]["env"][0];
    assert_eq!(env["valueFrom"]["configMapKeyRef"], json!({"name": "map", "key": "key"}));
    for api_version in ["v1", "meta.k8s.io/v1", "coordination.k8s.io/v1"] {
        let options = decode(&body(api_version, "DeleteOptions", &[word(4, "Foreground")])).unwrap();
        assert_eq!(options["propagationPolicy"], "Foreground");
    }
}

#[test]
fn nonsense_is_refused_and_never_followed_for_ever() {
    let good = body("v1", "Secret", &[word(3, "Opaque")]);
    assert_eq!(decode(b"").unwrap_err(), DecodeError::Malformed);
    assert_eq!(decode(&good[1..]).unwrap_err(), DecodeError::Malformed);
    let unheard = decode(&body("v1", "Unheard", &[])).unwrap_err();
    assert_eq!(unheard.to_string(), "Unheard of v1 has no protobuf form here");
    assert_eq!(decode(&body("v1", "Secret", &[number(1, 7)])).unwrap_err(), DecodeError::Malformed);
    for end in MAGIC.len()..good.len() {
        // Cut off anywhere, it is either not an object or one with less in it.
        let _ = decode(&good[..end]);
    }
    // Changed anywhere, at random but always the same: no panic, whatever it says.
    let mut seed = 1_u64;
    let pod =
        body("v1", "Pod", &[bytes(2, &[bytes(2, &[word(1, "c"), number(3, 7)])]), bytes(1, &[word(1, "p")])]);
    for _ in 0..20_000 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let [at, value, ..] = seed.to_le_bytes();
        let mut changed = pod.clone();
        let at = MAGIC.len() + usize::from(at) % (changed.len() - MAGIC.len());
        changed[at] = value;
        let _ = decode(&changed);
    }
    let mut schema = Vec::new();
    for _ in 0..1000 {
        // `not`, which holds another schema.
        schema = bytes(28, &[schema]);
    }
    let version = bytes(7, &[word(1, "v1"), bytes(4, &[bytes(1, &[schema])])]);
    let definition = body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &[bytes(2, &[version])]);
    assert_eq!(decode(&definition).unwrap_err(), DecodeError::Malformed);
}
