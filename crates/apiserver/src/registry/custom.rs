//! From a CRD to a registry entry, and what makes a CRD unfit to become one.

use std::sync::Arc;

use serde_json::Value;

use super::{
    Cell, Column, Conversion, Origin, Resource, Rules, Scale, Schema, Selectable, Version, kinds::definition,
    version,
};
use crate::{
    object,
    status::Cause,
    store::{GroupResource, Stored},
    table::jsonpath::JsonPath,
    webhook::conversion::{Converter, validate_conversion},
};

/// The entry a CRD stands for; nothing if it is not established or cannot be served.
pub(crate) fn resource(stored: &Stored) -> Option<Resource> {
    // Large, and read once.
    let value = stored.value.once();
    let crd = value.as_ref();
    if !definition::is_established(crd) {
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
        .filter_map(|version| served_version(version).ok())
        .map(Arc::new)
        .collect();
    served.sort_by(|a, b| version::compare(&a.name, &b.name));
    let stored_name = object::text(storage, &["name"]);
    let stored_schema = match served.iter().find(|version| version.name == stored_name) {
        Some(version) => Arc::clone(&version.schema),
        // Stored, but no longer served.
        None => served_version(storage).ok()?.schema,
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
        answer: None,
    })
}

/// What is wrong with a CRD.
pub(super) fn validate(crd: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = definition::validate_names(crd);
    causes.extend(old.map(|old| definition::validate_change(crd, old)).unwrap_or_default());
    causes.extend(definition::validate_stored_versions(crd));
    let all = versions(crd);
    let storage = all.iter().filter(|version| version.get("storage") == Some(&Value::Bool(true))).count();
    if storage != 1 {
        let detail = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &Value::Array(all.to_vec()), detail));
    }
    for (index, version) in all.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let wrong = match served_version(version) {
            Ok(version) => under("schema", version.schema.unfit()),
            Err(wrong) => wrong,
        };
        causes.extend(under(&path, &wrong));
    }
    causes.extend(validate_conversion(&crd["spec"]["conversion"]));
    causes
}

/// How its objects change versions. A webhook that cannot be read has been refused when it was written.
fn conversion(crd: &Value) -> Conversion {
    let converter = object::at(crd, &["spec", "conversion"])
        .filter(|conversion| object::text(conversion, &["strategy"]) == "Webhook")
        .and_then(Converter::of);
    converter.map_or(Conversion::Rename, |converter| Conversion::Webhook(Box::new(converter)))
}

fn versions(crd: &Value) -> &[Value] {
    object::at(crd, &["spec", "versions"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The same of what is in a part of the object.
fn under(path: &str, causes: &[Cause]) -> Vec<Cause> {
    causes.iter().map(|cause| Cause { field: format!("{path}.{}", cause.field), ..cause.clone() }).collect()
}

/// Without a look at its schema, which is compiled when it is needed.
fn served_version(version: &Value) -> Result<Version, Vec<Cause>> {
    let Some(schema) = object::at(version, &["schema", "openAPIV3Schema"]) else {
        return Err(vec![Cause::required("schema.openAPIV3Schema", "")]);
    };
    let deprecated = version.get("deprecated") == Some(&Value::Bool(true));
    Ok(Version {
        name: object::text(version, &["name"]).to_owned(),
        schema: Arc::new(Schema::custom(schema)),
        status: object::at(version, &["subresources", "status"]).is_some(),
        scale: scale(version)?,
        below: Vec::new(),
        columns: columns(version)?,
        selectable: selectable(version)?,
        deprecated: deprecated.then(|| object::text(version, &["deprecationWarning"]).to_owned()),
    })
}

fn path(field: &str, text: &str) -> Result<JsonPath, Vec<Cause>> {
    JsonPath::parse(text).map_err(|detail| vec![Cause::invalid(field, &text.into(), &detail)])
}

fn plain_fields(field: &str, text: &str) -> Result<Vec<String>, Vec<Cause>> {
    let path = path(field, text)?;
    let fields = path.fields().filter(|fields| !fields.is_empty());
    let owned = fields.map(|fields| fields.into_iter().map(str::to_owned).collect());
    owned.ok_or_else(|| {
        vec![Cause::invalid(field, &text.into(), "should be a json path of fields without arrays")]
    })
}

fn scale(version: &Value) -> Result<Option<Scale>, Vec<Cause>> {
    let Some(scale) = object::at(version, &["subresources", "scale"]) else { return Ok(None) };
    let fields =
        |name: &str| plain_fields(&format!("subresources.scale.{name}"), object::text(scale, &[name]));
    let selector = scale.get("labelSelectorPath").and_then(Value::as_str).filter(|path| !path.is_empty());
    Ok(Some(Scale {
        spec_replicas: fields("specReplicasPath")?,
        status_replicas: fields("statusReplicasPath")?,
        label_selector: selector.map(|_| fields("labelSelectorPath")).transpose()?,
    }))
}

fn selectable(version: &Value) -> Result<Vec<Selectable>, Vec<Cause>> {
    let fields = version.get("selectableFields").and_then(Value::as_array);
    fields
        .into_iter()
        .flatten()
        .map(|field| {
            let text = object::text(field, &["jsonPath"]);
            Ok(Selectable {
                label: text.trim_start_matches('.').to_owned(),
                path: path("selectableFields", text)?,
            })
        })
        .collect()
}

/// Name, then what the CRD declares; without any, the age.
fn columns(version: &Value) -> Result<Vec<Column>, Vec<Cause>> {
    let plain = |name: &str, kind: &str, format: &str, fields: &[&str]| Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: format.to_owned(),
        description: String::new(),
        priority: 0,
        cell: Cell::Path(JsonPath::of(fields)),
    };
    let mut columns = vec![plain("Name", "string", "name", &["metadata", "name"])];
    let declared = version.get("additionalPrinterColumns").and_then(Value::as_array);
    let Some(declared) = declared.filter(|declared| !declared.is_empty()) else {
        columns.push(plain("Age", "date", "", &["metadata", "creationTimestamp"]));
        return Ok(columns);
    };
    for (index, column) in declared.iter().enumerate() {
        let text = |field: &str| object::text(column, &[field]).to_owned();
        columns.push(Column {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
            cell: Cell::Path(path(
                &format!("additionalPrinterColumns[{index}].jsonPath"),
                &text("jsonPath"),
            )?),
        });
    }
    Ok(columns)
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
