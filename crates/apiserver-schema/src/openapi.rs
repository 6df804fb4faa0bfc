//! Keywords that a CustomResourceDefinition must not use, or only in a restricted form. Whether the schema is
//! structural is checked elsewhere.

use crate::cel::{self, REASONS};
use crate::error::FieldError;
use crate::node::Type;
use crate::path::{child, index, key};
use crate::raw::{Raw, RawAdditional};
use serde_json::Value;

/// Where a schema stands.
#[derive(Clone, Copy, Default)]
struct Place<'a> {
    root: bool,
    /// Within `metadata`, `kind` or `apiVersion` of a resource.
    in_meta: bool,
    /// Why defaults are not allowed here.
    no_defaults: Option<&'a str>,
}

/// Everything wrong with the keywords of a schema and of those within.
pub(crate) fn check(schema: Raw<'_>, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if schema.flag("nullable") {
        errors.push(FieldError::forbidden(&child(at, "nullable"), "nullable cannot be true at the root"));
    }
    walk(schema, at, Place { root: true, ..Place::default() }, &mut errors);
    errors
}

fn walk(schema: Raw<'_>, at: &str, place: Place<'_>, errors: &mut Vec<FieldError>) {
    unsupported(schema, at, place, errors);
    if let Some(additional) = schema.additional() {
        let at = child(at, "additionalProperties");
        let open = matches!(additional, RawAdditional::Allowed(true));
        if schema.has_properties() && !open {
            errors
                .push(FieldError::forbidden(&at, "additionalProperties and properties are mutual exclusive"));
        }
        if let RawAdditional::Schema(additional) = additional {
            let why = "inside additionalProperties applying to object metadata";
            let no_defaults = if place.in_meta { Some(why) } else { place.no_defaults };
            walk(additional, &at, Place { root: false, no_defaults, ..place }, errors);
        }
    }
    for (name, property) in schema.properties() {
        let meta = matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
        let resource = place.root || schema.flag("x-kubernetes-embedded-resource");
        let top_level = format!("in top-level {name}");
        let inside = Place {
            root: false,
            in_meta: place.in_meta || (resource && meta),
            no_defaults: if place.root && meta { Some(&top_level) } else { place.no_defaults },
        };
        walk(property, &key(&child(at, "properties"), name), inside, errors);
    }
    let inside = Place { root: false, ..place };
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for (i, branch) in schema.schemas(keyword).enumerate() {
            walk(branch, &index(&child(at, keyword), i), inside, errors);
        }
    }
    for keyword in ["not", "items"] {
        if let Some(branch) = schema.schema(keyword) {
            walk(branch, &child(at, keyword), inside, errors);
        }
    }
    extensions(schema, at, errors);
    lists(schema, at, errors);
    rules(schema, at, errors);
}

fn unsupported(schema: Raw<'_>, at: &str, place: Place<'_>, errors: &mut Vec<FieldError>) {
    let ty = schema.ty();
    if !ty.is_empty() && Type::named(ty).is_none() {
        let names = Type::ALL.map(|ty| ty.name().to_string());
        errors.push(FieldError::not_supported(&child(at, "type"), Value::from(ty), &names));
    }
    if let Some(why) = place.no_defaults.filter(|_| schema.get("default").is_some()) {
        errors.push(FieldError::forbidden(&child(at, "default"), format!("must not be set {why}")));
    }
    for keyword in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if schema.get(keyword).is_some() {
            errors.push(FieldError::forbidden(&child(at, keyword), format!("{keyword} is not supported")));
        }
    }
    if ty == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(&child(at, "type"), why));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        let why = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(&child(at, "items"), why));
    }
    if place.in_meta && schema.flag("x-kubernetes-embedded-resource") {
        let at = child(at, "x-kubernetes-embedded-resource");
        errors.push(FieldError::forbidden(&at, "must not be used inside of resource meta"));
    }
    if schema.flag("uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(&child(at, "uniqueItems"), why));
    }
}

fn extensions(schema: Raw<'_>, at: &str, errors: &mut Vec<FieldError>) {
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = child(at, "x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(&at, false, "must be true or undefined"));
    }
    let topologies = [
        ("x-kubernetes-map-type", "object", &["atomic", "granular"][..]),
        ("x-kubernetes-list-type", "array", &["atomic", "set", "map"]),
    ];
    for (keyword, ty, known) in topologies {
        let Some(written) = schema.get(keyword).and_then(Value::as_str) else { continue };
        let why = format!("must be {ty} if {keyword} is specified");
        if schema.ty().is_empty() {
            errors.push(FieldError::required(&child(at, "type"), &why));
        } else if schema.ty() != ty {
            errors.push(FieldError::invalid(&child(at, "type"), schema.ty(), why));
        }
        if !known.contains(&written) {
            let known: Vec<_> = known.iter().map(ToString::to_string).collect();
            errors.push(FieldError::not_supported(&child(at, keyword), Value::from(written), &known));
        }
    }
}

fn lists(schema: Raw<'_>, at: &str, errors: &mut Vec<FieldError>) {
    let list_type = schema.text("x-kubernetes-list-type");
    let keys = schema.texts("x-kubernetes-list-map-keys");
    let type_at = child(at, "x-kubernetes-list-type");
    let keys_at = child(at, "x-kubernetes-list-map-keys");
    let items_at = child(at, "items");
    if !keys.is_empty() && list_type != "map" {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(if list_type.is_empty() {
            FieldError::required(&type_at, why)
        } else {
            FieldError::invalid(&type_at, list_type, why)
        });
    }
    if list_type == "map" && keys.is_empty() {
        errors.push(FieldError::required(&keys_at, "must not be empty if x-kubernetes-list-type is map"));
    }
    let Some(items) = schema.schema("items") else { return };
    if matches!(list_type, "map" | "set") && items.flag("nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&child(&items_at, "nullable"), why));
    }
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let (nested_list, nested_map) =
        (items.text("x-kubernetes-list-type"), items.text("x-kubernetes-map-type"));
    if list_type == "set" && items.ty() == "array" && !matches!(nested_list, "" | "atomic") {
        errors.push(FieldError::invalid(&child(&items_at, "x-kubernetes-list-type"), nested_list, why));
    }
    if list_type == "set" && items.ty() == "object" && nested_map != "atomic" {
        // Upstream shows the list type, which is not there.
        errors.push(FieldError::invalid(&child(&items_at, "x-kubernetes-map-type"), Value::Null, why));
    }
    if list_type == "map" {
        list_map(items, &keys, &items_at, &keys_at, errors);
    }
}

fn list_map(items: Raw<'_>, keys: &[String], items_at: &str, keys_at: &str, errors: &mut Vec<FieldError>) {
    if items.ty() != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(&child(items_at, "type"), items.ty(), why));
        return;
    }
    let required = items.texts("required");
    for (i, name) in keys.iter().enumerate() {
        if keys[..i].contains(name) {
            errors.push(FieldError::invalid(
                keys_at,
                Value::from(keys),
                "must not contain duplicate entries",
            ));
        }
        let Some(property) = items.property(name) else {
            let why = "entries must all be names of item properties";
            errors.push(FieldError::invalid(keys_at, Value::from(keys), why));
            continue;
        };
        let at = key(&child(items_at, "properties"), name);
        if matches!(property.ty(), "array" | "object") {
            let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            errors.push(FieldError::invalid(&child(&at, "type"), items.ty(), why));
        }
        let reason = "this property is in x-kubernetes-list-map-keys, so it";
        if !required.contains(name) && property.get("default").is_none() {
            let why = format!("{reason} must have a default or be a required property");
            errors.push(FieldError::required(&child(&at, "default"), &why));
        }
        if property.flag("nullable") {
            errors
                .push(FieldError::forbidden(&child(&at, "nullable"), format!("{reason} cannot be nullable")));
        }
    }
}

/// The texts of rules; whether they compile is seen when they are compiled.
fn rules(schema: Raw<'_>, at: &str, errors: &mut Vec<FieldError>) {
    for (i, written) in schema.list("x-kubernetes-validations").iter().enumerate() {
        let at = index(&child(at, "x-kubernetes-validations"), i);
        let rule = Raw::new(written);
        let (source, message) = (rule.text("rule").trim(), rule.text("message"));
        if source.is_empty() {
            errors.push(FieldError::required(&child(&at, "rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.push(FieldError::invalid(
                &child(&at, "message"),
                message,
                "must be non-empty if specified",
            ));
        } else if message.trim().contains('\n') {
            errors.push(FieldError::invalid(&child(&at, "message"), message, "must not contain line breaks"));
        } else if source.contains('\n') && message.trim().is_empty() {
            let why = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(&child(&at, "message"), why));
        }
        let expression = rule.text("messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(&child(&at, "messageExpression"), why));
        }
        let reason = rule.get("reason").and_then(Value::as_str);
        if let Some(reason) = reason.filter(|reason| !REASONS.iter().any(|(known, _)| known == reason)) {
            let known = REASONS.map(|(known, _)| known.to_string());
            errors.push(FieldError::not_supported(&child(&at, "reason"), Value::from(reason), &known));
        }
        let path = rule.text("fieldPath");
        let path_at = child(&at, "fieldPath");
        if !path.is_empty() && path.trim().is_empty() {
            errors.push(FieldError::invalid(&path_at, path, "must be non-empty if specified"));
        }
        if path.contains('\n') {
            errors.push(FieldError::invalid(&path_at, path, "must not contain line breaks"));
        }
        if !path.is_empty() && cel::resolve_field_path(path, schema).is_err() {
            errors.push(FieldError::invalid(&path_at, path, "must be a valid path"));
        }
    }
}
