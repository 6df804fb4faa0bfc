//! What OpenAPI v2 can say of the schema of a custom resource, and what kubectl can read of that. Pure.
//!
//! The rules are those of kube-apiserver: without `allOf`, `anyOf`, `oneOf`, `not` and `nullable`, and without fields where
//! unknown ones are allowed, because kubectl refuses unknown fields beside known ones.

use serde_json::{Map, Value};

const OPEN: &str = "x-kubernetes-preserve-unknown-fields";

/// What is kept of a schema, beside `properties`, `items` and `additionalProperties`.
const KEPT: [&str; 23] = [
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "title",
    "type",
    "uniqueItems",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-validations",
    OPEN,
];

/// Kept, too: how lists and maps are merged.
const TOPOLOGY: [&str; 3] = ["x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type"];

/// Whether unknown fields are allowed.
pub(super) fn is_open(schema: &Value) -> bool {
    is_set(schema, OPEN)
}

fn is_set(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword) == Some(&Value::Bool(true))
}

/// The schemas of properties, items and additional properties.
pub(super) fn within(schema: &mut Value) -> impl Iterator<Item = &mut Value> {
    let fields = schema.as_object_mut().into_iter().flat_map(Map::iter_mut);
    fields.flat_map(|(keyword, value)| match (keyword.as_str(), value) {
        ("properties", Value::Object(properties)) => properties.values_mut().collect::<Vec<_>>(),
        ("items" | "additionalProperties", schema @ Value::Object(_)) => vec![schema],
        _ => Vec::new(),
    })
}

/// The schema of a resource in v2.
pub(super) fn reduced(schema: &Value) -> Value {
    if is_open(schema) {
        return serde_json::json!({"type": "object"});
    }
    node(schema)
}

fn node(schema: &Value) -> Value {
    let mut made = Map::new();
    for keyword in KEPT.into_iter().chain(TOPOLOGY) {
        if let Some(value) = schema.get(keyword) {
            made.insert(keyword.to_owned(), value.clone());
        }
    }
    // A value that may be null has no type: v2 has no null.
    let (is_nullable, is_open) = (is_set(schema, "nullable"), is_open(schema));
    let has_fields = !is_nullable && !is_open;
    let items = schema.get("items").filter(|_| has_fields);
    let properties = schema.get("properties").and_then(Value::as_object).filter(|_| has_fields);
    let is = |name: &str| schema.get("type").is_some_and(|written| written == name);
    if is_nullable || (is("array") && items.is_none()) || (is("object") && is_open) {
        made.remove("type");
    }
    if let Some(items) = items {
        made.insert("items".to_owned(), node(items));
    }
    let mut nullable = Vec::new();
    if let Some(properties) = properties {
        nullable.extend(
            properties.iter().filter(|(_, property)| is_set(property, "nullable")).map(|(name, _)| name),
        );
        let properties = properties.iter().map(|(name, property)| (name.clone(), node(property)));
        made.insert("properties".to_owned(), Value::Object(properties.collect()));
    }
    let mut has_nullable_rest = false;
    if let Some(rest) = schema.get("additionalProperties") {
        has_nullable_rest = is_set(rest, "nullable");
        made.insert(
            "additionalProperties".to_owned(),
            if rest.is_object() { node(rest) } else { rest.clone() },
        );
    }
    // What may be null may be missing, for kubectl.
    if let Some(Value::Array(required)) = made.get_mut("required") {
        required
            .retain(|name| !has_nullable_rest && !nullable.iter().any(|nullable| name == nullable.as_str()));
        if required.is_empty() {
            made.remove("required");
        }
    }
    Value::Object(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_kubectl_can_read_is_kept() {
        let string = json!({"type": "string"});
        for (schema, expected) in [
            (
                json!({"type": "object", "description": "d", "example": 1, "anyOf": [{}], "not": {}, "minProperties": 1}),
                json!({"type": "object", "description": "d", "minProperties": 1}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string", "nullable": true}, "b": string}, "required": ["a", "b"]}),
                json!({"type": "object", "properties": {"a": {}, "b": string}, "required": ["b"]}),
            ),
            (
                json!({"type": "array", "nullable": true, "items": string, "x-kubernetes-list-type": "set"}),
                json!({"x-kubernetes-list-type": "set"}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"b": string}}}}),
                json!({"type": "object", "properties": {"a": {"x-kubernetes-preserve-unknown-fields": true}}}),
            ),
            (
                json!({"type": "object", "additionalProperties": {"type": "string", "nullable": true}, "required": ["a"]}),
                json!({"type": "object", "additionalProperties": {}}),
            ),
            (
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
                json!({"x-kubernetes-int-or-string": true}),
            ),
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": string}}),
                json!({"type": "object"}),
            ),
        ] {
            assert_eq!(reduced(&schema), expected, "{schema}");
        }
    }
}
