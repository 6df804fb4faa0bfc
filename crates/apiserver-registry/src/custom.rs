//! From a CRD to a registry entry.

use std::sync::Arc;

use capstan_text::api_version;
use serde_json::Value;

use super::{
    Cell, Column, Conversion, Origin, Resource, Rules, Scale, Schema, Selectable, Version,
    crd::{is_established, versions},
};
use crate::{
    jsonpath::JsonPath,
    object,
    store::{GroupResource, Stored},
    webhook::conversion::Converter,
};

/// The entry a CRD stands for; nothing if it is not established or cannot be served.
pub fn resource(stored: &Stored) -> Option<Resource> {
    // Large, and read once.
    let value = stored.value.once();
    let crd = value.as_ref();
    if !is_established(crd) {
        return None;
    }
    let text = |path: &[&str]| object::text(crd, path).to_owned();
    let names = |field: &str| strings(object::at(crd, &["spec", "names", field]));
    let group = text(&["spec", "group"]);
    let all = versions(crd);
    let storage = all.iter().find(|version| version.get("storage") == Some(&Value::Bool(true)))?;
    let mut served: Vec<Arc<Version>> = all
        .iter()
        .filter(|version| version.get("served") == Some(&Value::Bool(true)))
        .filter_map(served_version)
        .map(Arc::new)
        .collect();
    served.sort_by(|a, b| api_version::compare(&a.name, &b.name));
    let stored_name = object::text(storage, &["name"]);
    let stored_schema = match served.iter().find(|version| version.name == stored_name) {
        Some(version) => Arc::clone(&version.schema),
        // Stored, but no longer served.
        None => served_version(storage)?.schema,
    };
    let name = GroupResource::new(&group, &text(&["spec", "names", "plural"]));
    Some(Resource {
        stored_as: name.clone(),
        name,
        kind: text(&["spec", "names", "kind"]),
        list_kind: text(&["spec", "names", "listKind"]),
        singular: text(&["spec", "names", "singular"]),
        short_names: names("shortNames"),
        categories: names("categories"),
        namespaced: text(&["spec", "scope"]) == "Namespaced",
        versions: served,
        stored_version: object::join_api_version(&group, stored_name),
        stored_schema,
        conversion: conversion(crd),
        origin: Origin::Custom { key: stored.key.clone(), revision: stored.revision },
        rules: &Rules::CUSTOM,
        virtual_kind: None,
    })
}

/// How its objects change versions. A webhook that cannot be read has been refused when it was written.
fn conversion(crd: &Value) -> Conversion {
    let converter = object::at(crd, &["spec", "conversion"])
        .filter(|conversion| object::text(conversion, &["strategy"]) == "Webhook")
        .and_then(Converter::of);
    converter.map_or(Conversion::Rename, |converter| Conversion::Webhook(Box::new(converter)))
}

/// A version as it is served; nothing if it cannot be. Its schema is not looked at: that is compiled when it is needed.
fn served_version(version: &Value) -> Option<Version> {
    let schema = object::at(version, &["schema", "openAPIV3Schema"])?;
    let deprecated = version.get("deprecated") == Some(&Value::Bool(true));
    Some(Version {
        name: object::text(version, &["name"]).to_owned(),
        schema: Arc::new(Schema::custom(schema)),
        status: object::at(version, &["subresources", "status"]).is_some(),
        scale: scale(version),
        below: Vec::new(),
        columns: columns(version),
        selectable: selectable(version),
        deprecated: deprecated.then(|| object::text(version, &["deprecationWarning"]).to_owned()),
    })
}

/// Paths of plain names, as [`super::crd_validation`] lets them be.
fn scale(version: &Value) -> Option<Scale> {
    let scale = object::at(version, &["subresources", "scale"])?;
    let fields = |name: &str| {
        let path = scale.get(name)?.as_str()?.strip_prefix('.')?;
        Some(path.split('.').map(str::to_owned).collect::<Vec<_>>())
    };
    Some(Scale {
        spec_replicas: fields("specReplicasPath")?,
        status_replicas: fields("statusReplicasPath")?,
        label_selector: fields("labelSelectorPath"),
    })
}

fn selectable(version: &Value) -> Vec<Selectable> {
    let fields = version.get("selectableFields").and_then(Value::as_array);
    let selectable = |field: &Value| {
        let text = object::text(field, &["jsonPath"]);
        let path = JsonPath::parse(text).ok()?;
        Some(Selectable { label: text.trim_start_matches('.').to_owned(), path })
    };
    fields.into_iter().flatten().filter_map(selectable).collect()
}

/// Name, then what the CRD declares; without any, or if one of them leads nowhere, the age.
fn columns(version: &Value) -> Vec<Column> {
    let plain = |name: &str, kind: &str, format: &str, fields: &[&str]| Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: format.to_owned(),
        description: String::new(),
        priority: 0,
        cell: Cell::Path(JsonPath::of(fields)),
    };
    let declared = version.get("additionalPrinterColumns").and_then(Value::as_array);
    let declared: Option<Vec<Column>> = declared.into_iter().flatten().map(column).collect();
    let rest = declared
        .filter(|declared| !declared.is_empty())
        .unwrap_or_else(|| vec![plain("Age", "date", "", &["metadata", "creationTimestamp"])]);
    std::iter::once(plain("Name", "string", "name", &["metadata", "name"])).chain(rest).collect()
}

fn column(column: &Value) -> Option<Column> {
    let text = |field: &str| object::text(column, &[field]).to_owned();
    Some(Column {
        name: text("name"),
        kind: text("type"),
        format: text("format"),
        description: text("description"),
        priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
        cell: Cell::Path(JsonPath::parse(&text("jsonPath")).ok()?),
    })
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
