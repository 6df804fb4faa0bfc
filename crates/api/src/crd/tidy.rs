//! Corrections of the schema from the derive macro, once for all kinds.
//!
//! The derive macro marks every `Option` as nullable, gives empty lists and maps a default, adds `null` to the values
//! of an optional enum, and omits the three properties of every object. Upstream does none of that, and each changes the
//! behavior of the API server: `nullable` stores an explicit null, and a default is written to objects that do not have
//! the field.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) fn tidy(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        if let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            walk(root);
            add_type_and_object_meta(root);
        }
    }
    crd
}

/// Every object has `apiVersion`, `kind` and `metadata`; `kubectl explain` shows their descriptions.
fn add_type_and_object_meta(root: &mut JSONSchemaProps) {
    let properties = root.properties.get_or_insert_default();
    for (name, type_, description) in [
        ("apiVersion", "string", "Group and version of the schema this object is written in."),
        ("kind", "string", "Kind of this object, in CamelCase. Cannot be changed."),
        ("metadata", "object", "Name, namespace, labels and the like, as every object has them."),
    ] {
        properties.insert(name.to_owned(), described(type_, (name != "metadata").then_some(description)));
    }
}

fn described(type_: &str, description: Option<&str>) -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some(type_.to_owned()),
        description: description.map(str::to_owned),
        ..Default::default()
    }
}

fn walk(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.title = None;
    if let Some(values) = &mut schema.enum_ {
        values.retain(|value| !value.0.is_null());
    }
    if schema.default.as_ref().is_some_and(says_nothing) {
        schema.default = None;
    }
    if schema.x_kubernetes_int_or_string == Some(true) {
        schema.any_of = Some(vec![described("integer", None), described("string", None)]);
    }
    for property in schema.properties.iter_mut().flat_map(BTreeMap::values_mut) {
        walk(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        walk(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        walk(values);
    }
}

/// Whether a default is empty. The derive macro adds these for fields that are skipped when empty.
fn says_nothing(default: &JSON) -> bool {
    match &default.0 {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
