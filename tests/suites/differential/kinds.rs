//! The kinds that requests are about.

use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "tried";
pub(crate) const WIDGETS: &str = "/apis/trial.capstan.dev/v1/namespaces/tried/widgets";

/// A kind, and what its objects are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) path: &'static str,
    pub(crate) api_version: &'static str,
    pub(crate) name: &'static str,
    /// Fields with values that are good, and values that are not.
    pub(crate) fields: &'static [(&'static str, &'static [&'static str])],
    pub(crate) subresources: &'static [&'static str],
}

/// A custom kind with every part of a schema, and built-in ones.
pub(crate) const KINDS: &[Kind] = &[
    Kind {
        path: WIDGETS,
        api_version: "trial.capstan.dev/v1",
        name: "Widget",
        fields: WIDGET,
        subresources: &["status", "scale"],
    },
    Kind {
        path: "/api/v1/namespaces/tried/configmaps",
        api_version: "v1",
        name: "ConfigMap",
        fields: CONFIG_MAP,
        subresources: &[],
    },
    Kind { path: WIDGETS, ..WIDGET_AGAIN },
    Kind {
        path: "/api/v1/namespaces/tried/secrets",
        api_version: "v1",
        name: "Secret",
        fields: SECRET,
        subresources: &[],
    },
];

/// The custom kind gets twice as many sequences: it has most to go wrong.
const WIDGET_AGAIN: Kind = Kind {
    path: WIDGETS,
    api_version: "trial.capstan.dev/v1",
    name: "Widget",
    fields: WIDGET,
    subresources: &["status", "scale"],
};

/// By path, as JSON.
const WIDGET: &[(&str, &[&str])] = &[
    ("spec.size", &["0", "3", "5", "6", "10", "11", "-1", "\"3\"", "2.0", "2.5", "null"]),
    ("spec.ratio", &["0.5", "1", "1e3", "\"x\"", "null"]),
    ("spec.title", &["\"\"", "\"harbour\"", "\"bad\"", "\"Far too long\"", "\"A\"", "7", "null"]),
    ("spec.mode", &["\"Slow\"", "\"Fast\"", "\"None\"", "null"]),
    ("spec.when", &["\"2026-01-01T00:00:00Z\"", "\"2026-01-01T00:00:00.5+02:00\"", "\"yesterday\""]),
    ("spec.port", &["80", "\"http\"", "\"80%\"", "1.5", "true"]),
    ("spec.maybe", &["\"m\"", "null", "1"]),
    (
        "spec.tags",
        &["[]", "[\"a\"]", "[\"a\",\"b\"]", "[\"b\",\"c\",\"d\"]", "[\"a\",\"a\"]", "[1]", "{}", "null"],
    ),
    (
        "spec.parts",
        &[
            "[]",
            "[{\"name\":\"one\"}]",
            "[{\"name\":\"one\",\"count\":2},{\"name\":\"two\",\"protocol\":\"UDP\"}]",
            "[{\"name\":\"two\",\"protocol\":\"TCP\",\"count\":1}]",
            "[{\"name\":\"one\"},{\"name\":\"one\",\"protocol\":\"TCP\"}]",
            "[{\"count\":1}]",
            "[{\"name\":\"one\",\"more\":true}]",
            "[null]",
            "null",
        ],
    ),
    ("spec.steps", &["[\"x\",\"y\"]", "[\"y\"]", "[]", "[null]"]),
    ("spec.limits", &["{}", "{\"cpu\":1}", "{\"cpu\":\"2\",\"memory\":\"1Gi\"}", "{\"cpu\":[]}", "null"]),
    ("spec.free", &["{}", "{\"any\":{\"thing\":[1,null]}}", "{\"other\":1}", "\"text\""]),
    (
        "spec.nested",
        &[
            "{}",
            "{\"a\":\"x\"}",
            "{\"b\":{\"c\":1}}",
            "{\"a\":\"y\",\"b\":{\"c\":2}}",
            "{\"b\":{\"c\":\"no\"}}",
        ],
    ),
    ("spec.whole", &["{\"a\":\"x\"}", "{\"b\":\"y\"}", "{\"a\":\"x\",\"b\":\"y\"}", "null"]),
    ("spec.fixed", &["\"one\"", "\"two\""]),
    ("spec.unknown", &["1"]),
    ("spec", &["{}", "null", "[]"]),
    ("status.ready", &["true", "false", "\"yes\""]),
    ("status.count", &["1", "2", "1.5"]),
    ("status.unknown", &["1"]),
    (
        "metadata.labels",
        &[
            "{\"a\":\"1\"}",
            "{\"a\":\"2\",\"b\":\"\"}",
            "{\"a\":null}",
            "{\"-\":\"x\"}",
            "{\"a\":\"b c\"}",
            "null",
            "{\"a\":1}",
        ],
    ),
    (
        "metadata.annotations",
        &["{\"note\":\"x\"}", "{\"note\":\"y\",\"other\":\"\"}", "{\"Not/a/key\":\"x\"}", "null"],
    ),
    ("metadata.finalizers", &["[\"trial.capstan.dev/wait\"]", "[]", "[\"plain\"]", "null"]),
    ("metadata.generateName", &["\"made-\""]),
    (
        "metadata.ownerReferences",
        &[
            "[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"o\",\"uid\":\"u\"}]",
            "[{\"kind\":\"ConfigMap\"}]",
        ],
    ),
    ("metadata.resourceVersion", &["\"@current\"", "\"1\"", "\"\"", "\"x\""]),
    ("metadata.uid", &["\"another\""]),
    ("metadata.name", &["\"other\"", "\"No_Name\""]),
    ("metadata.namespace", &["\"tried\"", "\"elsewhere\""]),
    ("metadata.unknown", &["1"]),
    ("metadata.generation", &["7"]),
    ("unknown", &["1"]),
];

const CONFIG_MAP: &[(&str, &[&str])] = &[
    (
        "data",
        &[
            "{}",
            "{\"a\":\"1\"}",
            "{\"a\":\"2\",\"b\":\"x\"}",
            "{\"b\":null}",
            "{\"not ok\":\"x\"}",
            "{\"a\":1}",
            "null",
        ],
    ),
    ("binaryData", &["{\"c\":\"AAEC\"}", "{\"a\":\"AAEC\"}", "{\"c\":\"?\"}"]),
    ("immutable", &["true", "false", "null", "\"yes\""]),
    ("metadata.labels", &["{\"a\":\"1\"}", "{\"a\":\"2\",\"b\":\"\"}", "{\"a\":null}", "{\"a\":\"b c\"}"]),
    ("metadata.annotations", &["{\"note\":\"x\"}", "{\"other\":\"\"}"]),
    ("metadata.finalizers", &["[\"trial.capstan.dev/wait\"]", "[]"]),
    ("metadata.resourceVersion", &["\"@current\"", "\"1\"", "\"\""]),
    ("metadata.namespace", &["\"tried\"", "\"elsewhere\""]),
    ("unknown", &["1"]),
];

const SECRET: &[(&str, &[&str])] = &[
    ("data", &["{}", "{\"a\":\"MQ==\"}", "{\"a\":\"Mg==\",\"b\":\"\"}", "{\"a\":\"?\"}", "null"]),
    ("stringData", &["{\"a\":\"1\"}", "{\"b\":\"x\"}", "{}"]),
    ("type", &["\"Opaque\"", "\"kubernetes.io/tls\"", "\"own/kind\"", "\"\""]),
    ("immutable", &["true", "false"]),
    ("metadata.labels", &["{\"a\":\"1\"}", "{\"b\":\"\"}"]),
    ("metadata.resourceVersion", &["\"@current\"", "\"1\""]),
    ("unknown", &["1"]),
];

/// A kind with every part of a schema.
pub(crate) fn definition() -> Value {
    let text = |most: u64| json!({"type": "string", "maxLength": most});
    let spec = json!({
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": 10, "default": 3},
            "ratio": {"type": "number"},
            "title": {"type": "string", "maxLength": 8, "pattern": "^[a-z-]*$"},
            "mode": {"type": "string", "enum": ["Slow", "Fast"], "default": "Slow"},
            "when": {"type": "string", "format": "date-time"},
            "port": {"x-kubernetes-int-or-string": true},
            "maybe": {"type": "string", "maxLength": 8, "nullable": true, "default": "d"},
            "tags": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "set", "items": text(8)},
            "parts": {
                "type": "array", "maxItems": 4, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "protocol"],
                "items": {
                    "type": "object", "required": ["name"],
                    "properties": {
                        "name": text(8), "protocol": {"type": "string", "default": "TCP"}, "count": {"type": "integer"},
                    },
                },
            },
            "steps": {"type": "array", "items": text(8), "maxItems": 4},
            "limits": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "nested": {
                "type": "object",
                "properties": {"a": text(8), "b": {"type": "object", "properties": {"c": {"type": "integer"}}}},
            },
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": text(8), "b": text(8)}},
            "fixed": {
                "type": "string", "maxLength": 8,
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed cannot change"}],
            },
        },
        "x-kubernetes-validations": [
            {"rule": "!has(self.title) || self.title != 'bad'", "message": "no bad titles", "fieldPath": ".title"},
            {
                "rule": "self.size <= 5 || self.mode == 'Fast'", "reason": "FieldValueForbidden",
                "messageExpression": "self.mode == 'Slow' ? 'too big to be Slow' : 'too big'",
            },
        ],
    });
    let status = json!({
        "type": "object", "properties": {"ready": {"type": "boolean"}, "count": {"type": "integer"}},
    });
    json!({
        "metadata": {"name": "widgets.trial.capstan.dev"},
        "spec": {
            "group": "trial.capstan.dev", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.count"},
                },
                "selectableFields": [{"jsonPath": ".spec.mode"}],
            }],
        },
    })
}
