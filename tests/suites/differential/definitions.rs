//! Definitions of kinds that are wrong in one way or another, hand-picked: both planes refuse them, in the same words.

use capstan_tests::Answer;
use serde_json::{Value, json};

use crate::play::{DEFINITIONS, Planes, Request};
use crate::same;

/// Schemas of one field.
const FIELDS: &[&str] = &[
    r#"{}"#,
    r#"{"type": "text"}"#,
    r#"{"type": "string", "pattern": "["}"#,
    r#"{"type": "string", "format": "no-such-format"}"#,
    r#"{"type": "string", "default": 1}"#,
    r#"{"type": "string", "enum": ["a", "b"], "default": "c"}"#,
    r#"{"type": "string", "maxLength": 2, "default": "abc"}"#,
    r#"{"type": "string", "nullable": true, "default": null}"#,
    r#"{"type": "string", "default": null}"#,
    r#"{"type": "string", "properties": {"a": {"type": "string"}}}"#,
    r#"{"type": "string", "items": {"type": "string"}}"#,
    r#"{"type": "string", "x-kubernetes-list-type": "set"}"#,
    r#"{"type": "string", "x-kubernetes-preserve-unknown-fields": false}"#,
    r#"{"type": "string", "x-kubernetes-int-or-string": true}"#,
    r#"{"type": "string", "$ref": "elsewhere"}"#,
    r#"{"type": "string", "id": "x"}"#,
    r#"{"type": "integer", "minimum": 3, "default": 1}"#,
    r#"{"type": "integer", "multipleOf": 0}"#,
    r#"{"type": "integer", "default": 1.5}"#,
    r#"{"type": "array"}"#,
    r#"{"type": "array", "items": {}}"#,
    r#"{"type": "array", "items": [{"type": "string"}]}"#,
    r#"{"type": "array", "items": {"type": "string"}, "additionalItems": false}"#,
    r#"{"type": "array", "items": {"type": "string"}, "uniqueItems": true}"#,
    r#"{"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"}"#,
    r#"{"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", "default": ["a", "a"]}"#,
    r#"{"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}"#,
    r#"{"type": "array", "items": {"type": "array", "items": {"type": "string"}}, "x-kubernetes-list-type": "set"}"#,
    r#"{"type": "array", "items": {"type": "string", "nullable": true}, "x-kubernetes-list-type": "set"}"#,
    r#"{"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}"#,
    r#"{"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}, "x-kubernetes-list-type": "map"}"#,
    r#"{"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}, "x-kubernetes-list-map-keys": ["a"]}"#,
    r#"{"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}},
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}"#,
    r#"{"type": "array", "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "object"}}},
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "a", "b"]}"#,
    r#"{"type": "object", "additionalProperties": false}"#,
    r#"{"type": "object", "additionalProperties": {}}"#,
    r#"{"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}"#,
    r#"{"type": "object", "properties": {"a": {}}}"#,
    r#"{"type": "object", "properties": {"a": {"type": "string", "default": "x"}}, "default": {"a": 1, "b": 2}}"#,
    r#"{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "default": {}}"#,
    r#"{"type": "object", "patternProperties": {"a": {"type": "string"}}}"#,
    r#"{"type": "object", "dependencies": {"a": ["b"]}}"#,
    r#"{"type": "object", "definitions": {"a": {"type": "string"}}}"#,
    r#"{"type": "object", "x-kubernetes-map-type": "other"}"#,
    r#"{"type": "array", "items": {"type": "string"}, "x-kubernetes-map-type": "atomic"}"#,
    r#"{"type": "object", "x-kubernetes-embedded-resource": true}"#,
    r#"{"type": "array", "items": {"type": "string"}, "x-kubernetes-embedded-resource": true}"#,
    r#"{"type": "object", "allOf": [{"type": "object"}]}"#,
    r#"{"type": "object", "anyOf": [{"properties": {"a": {"maxLength": 2}}}]}"#,
    r#"{"type": "object", "oneOf": [{"default": {}}, {"nullable": true}, {"description": "x"}]}"#,
    r#"{"type": "object", "not": {"additionalProperties": {"type": "string"}}}"#,
    r#"{"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}"#,
    r#"{"x-kubernetes-int-or-string": true, "anyOf": [{"type": "string"}, {"type": "integer"}]}"#,
    r#"{"x-kubernetes-preserve-unknown-fields": true}"#,
];

/// What is put over the only version.
const VERSIONS: &[&str] = &[
    r#"{"name": "V1"}"#,
    r#"{"name": "1"}"#,
    r#"{"name": ""}"#,
    r#"{"storage": false}"#,
    r#"{"served": false}"#,
    r#"{"schema": null}"#,
    r#"{"schema": {}}"#,
    r#"{"schema": {"openAPIV3Schema": {"type": "string"}}}"#,
    r#"{"schema": {"openAPIV3Schema": {"type": "object", "nullable": true}}}"#,
    r#"{"schema": {"openAPIV3Schema": {"type": "object", "properties": {"metadata": {"type": "string"}}}}}"#,
    r#"{"schema": {"openAPIV3Schema": {"type": "object", "properties": {"metadata": {"type": "object", "maxProperties": 2}}}}}"#,
    r#"{"schema": {"openAPIV3Schema": {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}}}}}}}"#,
    r#"{"schema": {"openAPIV3Schema": {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}}}"#,
    r#"{"schema": {"openAPIV3Schema": {"type": "object", "properties": {"kind": {"type": "integer"}, "apiVersion": {"type": "string", "default": "x"}}}}}"#,
    r#"{"deprecationWarning": "gone soon"}"#,
    r#"{"deprecated": true, "deprecationWarning": "gone\nsoon"}"#,
    r#"{"deprecated": true, "deprecationWarning": ""}"#,
    r#"{"deprecated": true, "deprecationWarning": "gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon gone soon "}"#,
    r#"{"additionalPrinterColumns": [{"name": "", "type": "", "jsonPath": ""}]}"#,
    r#"{"additionalPrinterColumns": [{"name": "A", "type": "text", "jsonPath": ".spec"}]}"#,
    r#"{"additionalPrinterColumns": [{"name": "A", "type": "string", "format": "x", "jsonPath": ".spec"}]}"#,
    r#"{"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": "spec"}]}"#,
    r#"{"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec["}, {"name": "B", "type": "string", "jsonPath": "{"}]}"#,
    r#"{"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec["}],
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "string", "pattern": "["}}}}}"#,
    r#"{"selectableFields": [{"jsonPath": ""}]}"#,
    r#"{"selectableFields": [{"jsonPath": "spec.x"}]}"#,
    r#"{"selectableFields": [{"jsonPath": ".spec.nowhere"}]}"#,
    r#"{"selectableFields": [{"jsonPath": ".metadata.name"}]}"#,
    r#"{"schema": {"openAPIV3Schema": {"properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string"}}}}}},
        "selectableFields": [{"jsonPath": ".metadata.name"}]}"#,
    r#"{"selectableFields": [{"jsonPath": ".spec"}]}"#,
    r#"{"selectableFields": [{"jsonPath": ".spec.x[0]"}]}"#,
    r#"{"selectableFields": [{"jsonPath": ".spec.x"}, {"jsonPath": ".spec.x"}]}"#,
    r#"{"schema": {"openAPIV3Schema": {"properties": {"spec": {"properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "string"}, "d": {"type": "string"}, "e": {"type": "string"}, "f": {"type": "string"}, "g": {"type": "string"}, "h": {"type": "string"}, "i": {"type": "string"}}}}}},
        "selectableFields": [{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.b"}, {"jsonPath": ".spec.c"}, {"jsonPath": ".spec.d"}, {"jsonPath": ".spec.e"}, {"jsonPath": ".spec.f"}, {"jsonPath": ".spec.g"}, {"jsonPath": ".spec.h"}, {"jsonPath": ".spec.i"}]}"#,
    r#"{"subresources": {"scale": {"specReplicasPath": "", "statusReplicasPath": ""}}}"#,
    r#"{"subresources": {"scale": {"specReplicasPath": ".status.a", "statusReplicasPath": ".spec.a", "labelSelectorPath": ".other"}}}"#,
    r#"{"subresources": {"scale": {"specReplicasPath": ".spec.a[0]", "statusReplicasPath": ".status.a.", "labelSelectorPath": ".status[\"a\"]"}}}"#,
    r#"{"subresources": {"scale": {"specReplicasPath": "spec.a", "statusReplicasPath": ".status"}}}"#,
    r#"{"subresources": {"status": {}, "other": {}}}"#,
];

/// What is put over the rest of the definition.
const SPECS: &[&str] = &[
    r#"{"group": ""}"#,
    r#"{"group": "plain"}"#,
    r#"{"group": "Not.A.Group"}"#,
    r#"{"scope": "Everywhere"}"#,
    r#"{"scope": ""}"#,
    r#"{"versions": []}"#,
    r#"{"versions": null}"#,
    r#"{"preserveUnknownFields": true}"#,
    r#"{"names": {"plural": "Gadgets"}}"#,
    r#"{"names": {"plural": "others"}}"#,
    r#"{"names": {"kind": ""}}"#,
    r#"{"names": {"kind": "not-Good_"}}"#,
    r#"{"names": {"kind": "gadget"}}"#,
    r#"{"names": {"listKind": "Gadget"}}"#,
    r#"{"names": {"singular": "Gadget!"}}"#,
    r#"{"names": {"shortNames": ["Gd"], "categories": ["All"]}}"#,
    r#"{"conversion": {"strategy": "Magic"}}"#,
    r#"{"conversion": {"strategy": "Webhook"}}"#,
    r#"{"conversion": {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}}"#,
    r#"{"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": []}}}"#,
    r#"{"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v9"], "clientConfig": {"url": "http://x"}}}}"#,
    r#"{"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1", "v1", "V"], "clientConfig": {"url": "https://x/?a#b", "caBundle": "eA=="}}}}"#,
    r#"{"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x", "caBundle": "eA=="}}}}"#,
    r#"{"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"service": {"name": "", "namespace": "", "port": 0, "path": "no"}}}}}"#,
];

/// What the planes say differently of them.
pub(crate) async fn differences(planes: &Planes) -> Vec<String> {
    let mut found = Vec::new();
    for definition in all() {
        let path = format!("{DEFINITIONS}?dryRun=All&fieldValidation=Strict");
        let request = Request::new("POST", path, "application/json", definition);
        let [real, embedded] = planes.both(&request).await.map(verdict);
        if let Some(difference) = same::difference(&real, &embedded, &[]) {
            found.push(format!("  {request}\n{difference}"));
        }
    }
    found
}

/// An answer without what is no verdict or differs on purpose: that a definition is established at once, and that fields are
/// called as in the definition and not as in what upstream makes of it.
fn verdict(mut answer: Answer) -> Answer {
    if answer.code == 201 {
        answer.body = Value::Null;
    }
    answer.warnings.retain(|warning| !warning.contains("unrecognized format"));
    if let Some(causes) = answer.body["details"]["causes"].as_array_mut() {
        // The first of the versions, once more.
        causes.retain(|cause| cause["field"] != "spec.version");
        for cause in causes {
            let [field, message] = ["field", "message"].map(|word| cause[word].as_str().unwrap_or_default());
            let field = field.replace("spec.versions[0].schema.", "spec.validation.");
            let field = field.replace("spec.versions[0].", "spec.").replace(".JSONPath", ".jsonPath");
            let message =
                match (message.rsplit_once("but isn't: "), message.split_once("]: must have exactly one")) {
                    (Some((before, _)), _) => format!("{before}but isn't"),
                    (_, Some((_, after))) => format!("versions must have exactly one{after}"),
                    _ => message.to_owned(),
                };
            *cause = json!({"reason": cause["reason"], "field": field, "message": message});
        }
    }
    answer
}

fn all() -> impl Iterator<Item = Value> {
    let over = |place: fn(&mut Value) -> &mut Value, text: &'static str| {
        let mut definition = definition();
        json_patch::merge(place(&mut definition), &serde_json::from_str(text).expect(text));
        definition
    };
    let field = |text: &'static str| {
        let mut definition = definition();
        let spec = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        // Not merged: null is a value here.
        spec["properties"]["x"] = serde_json::from_str(text).expect(text);
        definition
    };
    let version = move |text| over(|definition| &mut definition["spec"]["versions"][0], text);
    let spec = move |text| over(|definition| &mut definition["spec"], text);
    let (fields, versions) = (FIELDS.iter().copied().map(field), VERSIONS.iter().copied().map(version));
    fields.chain(versions).chain(SPECS.iter().copied().map(spec))
}

/// Nothing is wrong with it.
fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.trial.capstan.dev"},
        "spec": {
            "group": "trial.capstan.dev", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": {"x": {"type": "string"}}}},
                }},
            }],
        },
    })
}
