//! OpenAPI v2: the content of v3 in one document of the older form. Pure.

use serde_json::{Map, Value, json};

use super::components::{Components, Edition, REFERENCE};
use crate::registry::Registry;

const DEFINITION: &str = "#/definitions/";
const JSON: &str = "application/json";

/// The document of all resources.
pub(super) fn document(registry: &Registry, server: &str) -> Value {
    let mut components = Components::default();
    for resource in registry.all() {
        for version in &resource.versions {
            components.add(resource, version, Edition::V2);
        }
    }
    let Components { schemas, paths } = components;
    let definitions: Map<String, Value> =
        schemas.into_iter().map(|(name, definition)| (name, schema(definition))).collect();
    let paths: Map<String, Value> = paths.into_iter().map(|(name, item)| (name, path(item))).collect();
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": server},
        "paths": paths, "definitions": definitions,
    })
}

/// A schema of v3 in the form of v2, with all schemas within, and without defaults, as kube-apiserver has it.
fn schema(schema: Value) -> Value {
    let Value::Object(mut fields) = schema else { return schema };
    fields.remove("default");
    if let Some(reference) = reference(&fields) {
        // In v3 a reference has siblings only within `allOf`.
        fields.remove("allOf");
        fields.insert("$ref".to_owned(), reference.into());
        return Value::Object(fields);
    }
    // Either an integer or a number, or a string.
    if fields.remove("oneOf").is_some() {
        fields.insert("type".to_owned(), "string".into());
    }
    for (keyword, value) in &mut fields {
        match keyword.as_str() {
            "properties" => each(value),
            "items" | "additionalProperties" => replace(value, self::schema),
            _ => {}
        }
    }
    Value::Object(fields)
}

fn each(schemas: &mut Value) {
    if let Value::Object(schemas) = schemas {
        schemas.values_mut().for_each(|value| replace(value, schema));
    }
}

fn replace(value: &mut Value, change: impl FnOnce(Value) -> Value) {
    *value = change(value.take());
}

/// The definition that a schema consists of.
fn reference(fields: &Map<String, Value>) -> Option<String> {
    let only = match fields.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only.get("$ref"),
        _ => fields.get("$ref"),
    };
    let name = only?.as_str()?.strip_prefix(REFERENCE)?;
    Some(format!("{DEFINITION}{name}"))
}

fn path(item: Value) -> Value {
    let Value::Object(item) = item else { return item };
    let fields = item.into_iter().map(|(name, value)| {
        let value = if name == "parameters" { parameters(value) } else { operation(value) };
        (name, value)
    });
    Value::Object(fields.collect())
}

fn operation(mut operation: Value) -> Value {
    let Some(fields) = operation.as_object_mut() else { return operation };
    let mut given = parameters(fields.remove("parameters").unwrap_or_default());
    if let Some(mut body) = fields.remove("requestBody") {
        let contents = body["content"].take();
        let contents = contents.as_object().into_iter().flatten();
        let (types, mut schemas): (Vec<_>, Vec<_>) =
            contents.map(|(name, content)| (name.clone(), content["schema"].clone())).unzip();
        let body = schemas.pop().map(schema).unwrap_or_default();
        if let Value::Array(given) = &mut given {
            given.push(json!({"name": "body", "in": "body", "required": true, "schema": body}));
        }
        fields.insert("consumes".to_owned(), types.into());
    }
    fields.insert("parameters".to_owned(), given);
    fields.insert("produces".to_owned(), json!([JSON]));
    for response in fields.get_mut("responses").and_then(Value::as_object_mut).into_iter().flatten() {
        if let Some(fields) = response.1.as_object_mut()
            && let Some(mut content) = fields.remove("content")
        {
            fields.insert("schema".to_owned(), schema(content[JSON]["schema"].take()));
        }
    }
    operation
}

/// Parameters that are not the body have their schema among their own fields.
fn parameters(mut parameters: Value) -> Value {
    for parameter in parameters.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(Value::Object(schema)) = parameter.remove("schema") {
            parameter.extend(schema);
        }
    }
    if parameters.is_null() { json!([]) } else { parameters }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_refer_to_definitions() {
        let of_v3 = json!({"type": "object", "properties": {
            "a": {"default": {}, "description": "d", "allOf": [{"$ref": "#/components/schemas/A"}]},
            "b": {"type": "array", "default": [], "items": {"$ref": "#/components/schemas/B"}},
            "c": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
        }});
        let of_v2 = json!({"type": "object", "properties": {
            "a": {"$ref": "#/definitions/A", "description": "d"},
            "b": {"type": "array", "items": {"$ref": "#/definitions/B"}},
            "c": {"format": "int-or-string", "type": "string"},
        }});
        assert_eq!(schema(of_v3), of_v2);
    }

    #[test]
    fn the_body_is_a_parameter() {
        let content = json!({"*/*": {"schema": {"$ref": "#/components/schemas/A"}}});
        let of_v3 = json!({
            "parameters": [{"name": "dryRun", "in": "query", "schema": {"type": "string"}}],
            "requestBody": {"required": true, "content": content},
            "responses": {"200": {"description": "OK", "content": {JSON: {"schema": {"$ref": "#/components/schemas/A"}}}}},
            "x-kubernetes-action": "post",
        });
        let reference = json!({"$ref": "#/definitions/A"});
        let of_v2 = json!({
            "parameters": [
                {"name": "dryRun", "in": "query", "type": "string"},
                {"name": "body", "in": "body", "required": true, "schema": reference},
            ],
            "consumes": ["*/*"], "produces": [JSON],
            "responses": {"200": {"description": "OK", "schema": reference}},
            "x-kubernetes-action": "post",
        });
        assert_eq!(operation(of_v3), of_v2);
    }
}
