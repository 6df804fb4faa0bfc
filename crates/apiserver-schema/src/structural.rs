//! Checks that a schema is structural. All fields and their types must be declared outside of `allOf`, `anyOf`, `oneOf`
//! and `not`; inside those, only values may be constrained. Rules and messages are those of a kube-apiserver.

use crate::error::FieldError;
use crate::path::{child, index, key};
use crate::pattern;
use crate::raw::{Raw, RawAdditional};
use serde_json::Value;

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What keeps the question from being asked at all: keywords that a structural schema has no place for.
pub(crate) fn obstacle(schema: Raw<'_>) -> Option<String> {
    let mut found = None;
    schema.walk("", &mut |schema, _| {
        let keywords =
            ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];
        let keyword =
            keywords.into_iter().find(|keyword| schema.get(keyword).is_some_and(|value| !is_zero(value)));
        let why = if let Some(keyword) = keyword {
            format!("OpenAPIV3Schema '{}' is not supported", keyword.replace("$schema", "schema"))
        } else if schema.get("items").is_some_and(Value::is_array) {
            "OpenAPIV3Schema 'items' must be a schema, but is an array".to_string()
        } else if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            "'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_string()
        } else {
            return;
        };
        found.get_or_insert(why);
    });
    found
}

/// Everything that keeps the schema from being structural, sorted.
pub(crate) fn check(schema: Raw<'_>, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(schema, Level::Root, at, &mut errors);
    complete_values(schema, Some(schema), at, at, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn invariants(schema: Raw<'_>, level: Level, at: &str, errors: &mut Vec<FieldError>) {
    match schema.schema("items") {
        Some(items) => invariants(items, Level::Item, &child(at, "items"), errors),
        None if schema.ty() == "array" => {
            errors.push(FieldError::required(&child(at, "items"), "must be specified"));
        }
        None => {}
    }
    for (name, property) in schema.properties() {
        invariants(property, Level::Field, &key(&child(at, "properties"), name), errors);
    }
    if let Some(additional) = schema.additional() {
        let at = child(at, "additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(&at, "must not be used at the root"));
        }
        if let RawAdditional::Schema(additional) = additional {
            invariants(additional, Level::Field, &at, errors);
        }
    }
    extensions(schema, at, errors);
    let skip_any_of = int_or_string_any_of(schema);
    let skip_first_all_of = schema.schemas("allOf").next().is_some_and(int_or_string_any_of);
    values(schema, skip_any_of, skip_first_all_of, at, errors);
    types(schema, level, at, errors);
    if let Some(metadata) = schema.property("metadata") {
        let at = key(&child(at, "properties"), "metadata");
        let checked = level == Level::Root || schema.flag("x-kubernetes-embedded-resource");
        metadata_invariants(metadata, checked, level, &at, errors);
    }
}

fn extensions(schema: Raw<'_>, at: &str, errors: &mut Vec<FieldError>) {
    if schema.flag("x-kubernetes-int-or-string") {
        for other in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if schema.flag(other) {
                let why = "must be false if x-kubernetes-int-or-string is true";
                errors.push(FieldError::invalid(&child(at, other), true, why));
            }
        }
    }
}

fn types(schema: Raw<'_>, level: Level, at: &str, errors: &mut Vec<FieldError>) {
    let embedded = schema.flag("x-kubernetes-embedded-resource");
    let preserving = schema.flag("x-kubernetes-preserve-unknown-fields");
    let ty = schema.ty();
    let type_at = child(at, "type");
    if embedded && ty != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if ty.is_empty() {
            FieldError::required(&type_at, why)
        } else {
            FieldError::invalid(&type_at, ty, why)
        });
    } else if ty.is_empty() && !schema.flag("x-kubernetes-int-or-string") && !preserving {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&type_at, why));
    }
    if embedded && schema.additional().is_some() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(&child(at, "additionalProperties"), why));
    }
    if level == Level::Root && !ty.is_empty() && ty != "object" {
        errors.push(FieldError::invalid(&type_at, ty, "must be object at the root"));
    }
    if level == Level::Root || embedded {
        for name in ["kind", "apiVersion"] {
            if let Some(property) = schema.property(name).filter(|property| property.ty() != "string") {
                let at = child(&key(&child(at, "properties"), name), "type");
                errors.push(FieldError::invalid(&at, property.ty(), "must be string"));
            }
        }
    }
    if embedded && !preserving && !schema.has_properties() {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                   x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&child(at, "properties"), why));
    }
}

fn metadata_invariants(
    metadata: Raw<'_>,
    checked: bool,
    level: Level,
    at: &str,
    errors: &mut Vec<FieldError>,
) {
    if checked && metadata.ty() != "object" {
        errors.push(FieldError::invalid(&child(at, "type"), metadata.ty(), "must be object"));
    }
    let names_only = metadata.properties().all(|(name, _)| name == "name" || name == "generateName");
    let nothing_else = metadata
        .keywords()
        .filter(|(keyword, _)| !matches!(keyword.as_str(), "type" | "default" | "properties"))
        .all(|(_, value)| is_zero(value));
    if level == Level::Root && !(names_only && nothing_else) {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(at, why));
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// `anyOf` of exactly integer and string, the one place where a type may be said in a value validation.
fn int_or_string_any_of(schema: Raw<'_>) -> bool {
    let mut types = schema.schemas("anyOf").map(|branch| {
        let alone = branch.keywords().all(|(keyword, value)| keyword == "type" || is_zero(value));
        if alone { branch.ty() } else { "" }
    });
    types.next() == Some("integer") && types.next() == Some("string") && types.next().is_none()
}

fn values(
    schema: Raw<'_>,
    skip_any_of: bool,
    skip_first_all_of: bool,
    at: &str,
    errors: &mut Vec<FieldError>,
) {
    if !skip_any_of {
        for (i, branch) in schema.schemas("anyOf").enumerate() {
            nested(branch, false, &index(&child(at, "anyOf"), i), errors);
        }
    }
    for (i, branch) in schema.schemas("allOf").enumerate() {
        nested(branch, skip_first_all_of && i == 0, &index(&child(at, "allOf"), i), errors);
    }
    for (i, branch) in schema.schemas("oneOf").enumerate() {
        nested(branch, false, &index(&child(at, "oneOf"), i), errors);
    }
    if let Some(branch) = schema.schema("not") {
        nested(branch, false, &child(at, "not"), errors);
    }
    let written = schema.text("pattern");
    if let Err(why) = pattern::compile(written) {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(&child(at, "pattern"), written, why));
    }
}

fn nested(schema: Raw<'_>, skip_any_of: bool, at: &str, errors: &mut Vec<FieldError>) {
    values(schema, skip_any_of, false, at, errors);
    if let Some(items) = schema.schema("items") {
        nested(items, false, &child(at, "items"), errors);
    }
    for (name, property) in schema.properties() {
        nested(property, false, &key(&child(at, "properties"), name), errors);
    }
    let forbidden = [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ];
    for (keyword, why) in forbidden {
        let allowed_when_zero = !matches!(keyword, "additionalProperties" | "default");
        if schema.get(keyword).is_some_and(|value| !(allowed_when_zero && is_zero(value))) {
            errors.push(FieldError::forbidden(&child(at, keyword), why));
        }
    }
    if schema.property("metadata").is_some() {
        let at = key(&child(at, "properties"), "metadata");
        errors.push(FieldError::forbidden(&at, "must not be specified in a nested context"));
    }
}

/// Whatever a value validation speaks about must be known outside of it.
fn complete_values(
    validation: Raw<'_>,
    schema: Option<Raw<'_>>,
    at: &str,
    said_at: &str,
    errors: &mut Vec<FieldError>,
) {
    if let Some(branch) = validation.schema("not") {
        complete(branch, schema, at, &child(said_at, "not"), errors);
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for (i, branch) in validation.schemas(keyword).enumerate() {
            complete(branch, schema, at, &index(&child(said_at, keyword), i), errors);
        }
    }
}

fn complete(
    validation: Raw<'_>,
    schema: Option<Raw<'_>>,
    at: &str,
    said_at: &str,
    errors: &mut Vec<FieldError>,
) {
    let Some(schema) = schema else {
        errors.push(FieldError::required(at, &format!("because it is defined in {said_at}")));
        return;
    };
    complete_values(validation, Some(schema), at, said_at, errors);
    if let Some(items) = validation.schema("items") {
        complete(items, schema.schema("items"), &child(at, "items"), &child(said_at, "items"), errors);
    }
    for (name, property) in validation.properties() {
        let at = key(&child(at, "properties"), name);
        let said_at = key(&child(said_at, "properties"), name);
        complete(property, schema.property(name), &at, &said_at, errors);
    }
}
