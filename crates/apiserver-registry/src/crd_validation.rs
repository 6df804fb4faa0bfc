//! Validation of CRDs.

use std::collections::HashSet;

use capstan_apiserver_schema::field_at;
use serde_json::Value;

use super::{
    Schema,
    crd::{is_established, versions},
};
use crate::{
    names::{NameRule, name_error},
    object,
    status::Cause,
    webhook::conversion::validate_conversion,
};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const MOST_SELECTABLE: usize = 8;
/// Longest `deprecationWarning`, in characters.
const LONGEST_WARNING: usize = 256;

/// The invalid fields of a CRD.
pub(super) fn validate(crd: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = validate_names(crd);
    causes.extend(old.map(|old| validate_change(crd, old)).unwrap_or_default());
    causes.extend(validate_stored_versions(crd));
    let all = versions(crd);
    let storage = all.iter().filter(|version| version.get("storage") == Some(&Value::Bool(true))).count();
    if storage != 1 {
        let detail = "must have exactly one version marked as storage version";
        let given = object::at(crd, &["spec", "versions"]).unwrap_or(&Value::Null);
        causes.push(Cause::invalid("spec.versions", given, detail));
    }
    if object::at(crd, &["spec", "preserveUnknownFields"]) == Some(&Value::Bool(true)) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        causes.push(Cause::invalid("spec.preserveUnknownFields", &true.into(), detail));
    }
    for (index, version) in all.iter().enumerate() {
        causes.extend(under(&format!("spec.versions[{index}]"), &validate_version(version)));
    }
    causes.extend(validate_conversion(&crd["spec"]["conversion"]));
    causes
}

/// The invalid fields among names, group and scope.
fn validate_names(crd: &Value) -> Vec<Cause> {
    let text = |path: &[&str]| object::text(crd, path);
    let (group, plural) = (text(&["spec", "group"]), text(&["spec", "names", "plural"]));
    let mut causes = Vec::new();
    if object::name(crd) != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &object::name(crd).into(), detail));
    }
    for (field, mixed_case) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        let (path, name) = (format!("spec.names.{field}"), text(&["spec", "names", field]));
        if name.is_empty() {
            causes.push(Cause::required(path, ""));
        } else if !mixed_case {
            causes.extend(word_error(&path, name));
        } else if let Some(detail) = name_error(NameRule::Word, &name.to_lowercase()) {
            let detail = format!("may have mixed case, but should otherwise match: {detail}");
            causes.push(Cause::invalid(path, &name.into(), &detail));
        }
    }
    let (kind, list_kind) = (text(&["spec", "names", "kind"]), text(&["spec", "names", "listKind"]));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        causes.push(Cause::invalid("spec.names.listKind", &list_kind.into(), detail));
    }
    for field in ["shortNames", "categories"] {
        let names = object::at(crd, &["spec", "names", field]).and_then(Value::as_array);
        for (index, name) in names.into_iter().flatten().enumerate() {
            let name = name.as_str().unwrap_or_default();
            causes.extend(word_error(&format!("spec.names.{field}[{index}]"), name));
        }
    }
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if let Some(detail) = name_error(NameRule::Subdomain, group) {
        causes.push(Cause::invalid("spec.group", &group.into(), detail));
    } else if !group.contains('.') {
        causes.push(Cause::invalid("spec.group", &group.into(), "should be a domain with at least one dot"));
    }
    match text(&["spec", "scope"]) {
        "" => causes.push(Cause::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        scope => causes.push(Cause::unsupported("spec.scope", &scope.into(), &["Cluster", "Namespaced"])),
    }
    causes
}

fn word_error(path: &str, name: &str) -> Option<Cause> {
    name_error(NameRule::Word, name).map(|detail| Cause::invalid(path, &name.into(), detail))
}

/// What cannot change once objects of the kind may be stored: it says where they are and what they are.
fn validate_change(definition: &Value, old: &Value) -> Vec<Cause> {
    if !is_established(old) {
        return Vec::new();
    }
    let fields =
        [("spec.scope", ["spec", "scope"].as_slice()), ("spec.names.kind", &["spec", "names", "kind"])];
    let changed =
        fields.into_iter().filter(|(_, path)| object::text(definition, path) != object::text(old, path));
    changed
        .map(|(field, path)| {
            Cause::invalid(field, &object::text(definition, path).into(), "field is immutable")
        })
        .collect()
}

/// What is wrong with the versions in which objects may be stored: each must be there to be read.
pub(super) fn validate_stored_versions(definition: &Value) -> Vec<Cause> {
    let versions = || definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let stored = definition.pointer("/status/storedVersions").and_then(Value::as_array);
    let Some(stored) = stored.filter(|stored| !stored.is_empty()) else {
        let detail = "must have at least one stored version";
        return vec![Cause::invalid("status.storedVersions", &Value::Null, detail)];
    };
    let is_there = |name: &Value| versions().any(|version| version.get("name") == Some(name));
    let missing = |(index, name): (usize, &Value)| {
        let text = name.as_str().unwrap_or_default();
        let detail = format!(
            "missing from spec.versions; {text} was previously a storage version, and must remain in spec.versions \
             until a storage migration ensures no data remains persisted in {text} and removes {text} from \
             status.storedVersions"
        );
        Cause::invalid(format!("status.storedVersions[{index}]"), name, &detail)
    };
    let mut causes: Vec<Cause> =
        stored.iter().enumerate().filter(|(_, name)| !is_there(name)).map(missing).collect();
    let storage = versions().find(|version| version.get("storage") == Some(&Value::Bool(true)));
    let storage = storage.and_then(|version| version.get("name"));
    if let Some(storage) = storage.filter(|storage| !stored.contains(storage)) {
        let detail = format!("must have the storage version {}", storage.as_str().unwrap_or_default());
        causes.push(Cause::invalid("status.storedVersions", &Value::Array(stored.clone()), &detail));
    }
    causes
}

/// What is wrong with a version.
fn validate_version(version: &Value) -> Vec<Cause> {
    let mut causes = Vec::from_iter(word_error("name", object::text(version, &["name"])));
    causes.extend(validate_warning(version));
    let schema = object::at(version, &["schema", "openAPIV3Schema"]);
    match schema {
        Some(schema) => causes.extend(under("schema", Schema::custom(schema).unfit())),
        None => causes.push(Cause::required("schema.openAPIV3Schema", "")),
    }
    if let Some(scale) = object::at(version, &["subresources", "scale"]) {
        causes.extend(under("subresources.scale", &validate_scale(scale)));
    }
    let list = |field: &str| version.get(field).and_then(Value::as_array).into_iter().flatten().enumerate();
    for (index, column) in list("additionalPrinterColumns") {
        causes.extend(under(&format!("additionalPrinterColumns[{index}]"), &validate_column(column)));
    }
    let selectable = list("selectableFields").count();
    if selectable > MOST_SELECTABLE {
        causes.push(Cause::too_many("selectableFields", selectable, MOST_SELECTABLE));
    }
    let mut seen = HashSet::new();
    for (index, selectable) in list("selectableFields") {
        let (field, path) =
            (format!("selectableFields[{index}].jsonPath"), object::text(selectable, &["jsonPath"]));
        if path.is_empty() {
            causes.push(Cause::required(field, ""));
        } else if !seen.insert(path) {
            causes.push(Cause::duplicate(field, &path.into()));
        } else if let Some(detail) = schema.and_then(|schema| unselectable(schema, path)) {
            causes.push(Cause::invalid(field, &path.into(), &detail));
        }
    }
    causes
}

fn validate_warning(version: &Value) -> Option<Cause> {
    let warning = version.get("deprecationWarning").and_then(Value::as_str)?;
    let unprintable = || warning.char_indices().find(|(_, letter)| letter.is_control());
    let detail = if version.get("deprecated") != Some(&Value::Bool(true)) {
        "can only be set for deprecated versions".to_owned()
    } else if warning.len() > LONGEST_WARNING {
        format!("must be <= {LONGEST_WARNING} characters long")
    } else if warning.is_empty() {
        "must not be an empty string".to_owned()
    } else {
        let (index, _) = unprintable()?;
        format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        )
    };
    Some(Cause::invalid("deprecationWarning", &warning.into(), &detail))
}

fn validate_scale(scale: &Value) -> Vec<Cause> {
    let check = |field: &str, roots: &[&str], parents: &str| {
        let path = object::text(scale, &[field]);
        let detail = if !path.starts_with('.') {
            "must be a simple json path starting with .".to_owned()
        } else if roots.iter().any(|root| path.starts_with(root)) {
            return None;
        } else {
            format!("should be a json path under {parents}")
        };
        Some(Cause::invalid(field, &path.into(), &detail))
    };
    let required = |field: &str, root: &str| match object::text(scale, &[field]) {
        "" => Some(Cause::required(field, "")),
        _ => check(field, &[&format!("{root}.")], root),
    };
    let selector = match object::text(scale, &["labelSelectorPath"]) {
        "" => None,
        _ => check("labelSelectorPath", &[".spec.", ".status."], "either .spec or .status"),
    };
    let causes = [required("specReplicasPath", ".spec"), required("statusReplicasPath", ".status"), selector];
    causes.into_iter().flatten().collect()
}

fn validate_column(column: &Value) -> Vec<Cause> {
    let text = |field: &str| object::text(column, &[field]);
    let one_of = |words: &[&str]| format!("must be one of {}", words.join(","));
    let mut causes = Vec::new();
    if text("name").is_empty() {
        causes.push(Cause::required("name", ""));
    }
    match text("type") {
        "" => causes.push(Cause::required("type", &one_of(&COLUMN_TYPES))),
        kind if COLUMN_TYPES.contains(&kind) => {}
        kind => causes.push(Cause::invalid("type", &kind.into(), &one_of(&COLUMN_TYPES))),
    }
    let format = text("format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        causes.push(Cause::invalid("format", &format.into(), &one_of(&COLUMN_FORMATS)));
    }
    match text("jsonPath") {
        "" => causes.push(Cause::required("jsonPath", "")),
        path if path.starts_with('.') => {}
        path => {
            let detail = "must be a simple json path starting with .";
            causes.push(Cause::invalid("jsonPath", &path.into(), detail));
        }
    }
    causes
}

/// Why nobody can select by a field.
fn unselectable(schema: &Value, path: &str) -> Option<String> {
    match field_at(schema, path) {
        Err(why) => Some(format!("is an invalid path: {why}")),
        Ok(_) if path == ".metadata" || path.starts_with(".metadata.") => {
            Some("must not point to fields in metadata".to_owned())
        }
        Ok(field) if ["string", "boolean", "integer"].contains(&object::text(field, &["type"])) => None,
        Ok(_) => {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                          with formats are allowed.";
            Some(detail.to_owned())
        }
    }
}

/// The same of what is in a part of the object.
fn under(path: &str, causes: &[Cause]) -> Vec<Cause> {
    causes.iter().map(|cause| Cause { field: format!("{path}.{}", cause.field), ..cause.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(scope: &str, versions: &[&str], stored: &[&str]) -> Value {
        let versions: Vec<Value> =
            versions.iter().enumerate().map(|(at, name)| json!({"name": name, "storage": at == 0})).collect();
        json!({
            "spec": {"scope": scope, "names": {"kind": "Ship"}, "versions": versions},
            "status": {
                "storedVersions": stored,
                "conditions": [{"type": "Established", "status": "True"}],
            },
        })
    }

    #[test]
    fn where_objects_are_cannot_change_under_them() {
        let old = definition("Namespaced", &["v1"], &["v1"]);
        assert_eq!(validate_change(&old, &old), []);
        let fields = |new: &Value, old: &Value| -> Vec<String> {
            validate_change(new, old).into_iter().map(|cause| cause.field).collect()
        };
        let new = definition("Cluster", &["v1"], &["v1"]);
        assert_eq!(fields(&new, &old), ["spec.scope"]);
        let mut unborn = old.clone();
        unborn["status"]["conditions"] = json!([]);
        assert_eq!(fields(&new, &unborn), [""; 0]);
        let mut renamed = old.clone();
        renamed["spec"]["names"]["kind"] = "Boat".into();
        assert_eq!(fields(&renamed, &old), ["spec.names.kind"]);
    }

    #[test]
    fn versions_that_hold_objects_stay() {
        let fields = |versions: &[&str], stored: &[&str]| -> Vec<String> {
            let causes = validate_stored_versions(&definition("Cluster", versions, stored));
            causes.into_iter().map(|cause| cause.field).collect()
        };
        assert_eq!(fields(&["v2", "v1"], &["v1", "v2"]), [""; 0]);
        assert_eq!(fields(&["v2"], &["v1", "v2"]), ["status.storedVersions[0]"]);
        assert_eq!(fields(&["v2", "v1"], &["v1"]), ["status.storedVersions"]);
        assert_eq!(fields(&["v2"], &["v2"]), [""; 0]);
    }

    #[test]
    fn every_error_of_a_version_is_listed() {
        let version = json!({
            "name": "V1", "deprecationWarning": "x",
            "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string", "pattern": "["}}}},
            }},
            "subresources": {"scale": {"specReplicasPath": ".status.a", "statusReplicasPath": "", "labelSelectorPath": ".a"}},
            "additionalPrinterColumns": [{"name": "A", "type": "text", "format": "x", "jsonPath": "a"}],
            "selectableFields": [
                {"jsonPath": ".spec.a"}, {"jsonPath": ".spec.a"}, {"jsonPath": ".spec"}, {"jsonPath": ".spec.b"}, {"jsonPath": ""},
            ],
        });
        let fields: Vec<String> = validate_version(&version).into_iter().map(|cause| cause.field).collect();
        let expected = [
            "name",
            "deprecationWarning",
            "schema.openAPIV3Schema.properties[spec].properties[a].pattern",
            "subresources.scale.specReplicasPath",
            "subresources.scale.statusReplicasPath",
            "subresources.scale.labelSelectorPath",
            "additionalPrinterColumns[0].type",
            "additionalPrinterColumns[0].format",
            "additionalPrinterColumns[0].jsonPath",
            "selectableFields[1].jsonPath",
            "selectableFields[2].jsonPath",
            "selectableFields[3].jsonPath",
            "selectableFields[4].jsonPath",
        ];
        assert_eq!(fields, expected);
        let fit = json!({
            "name": "v1", "deprecated": true, "deprecationWarning": "gone soon",
            "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "integer"}}}},
            }},
            "subresources": {"scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a", "labelSelectorPath": ".spec.b"}},
            "additionalPrinterColumns": [{"name": "A", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
            "selectableFields": [{"jsonPath": ".spec.a"}],
        });
        assert_eq!(validate_version(&fit), []);
    }

    #[test]
    fn names_are_words() {
        let wrong = |names: Value| -> Vec<String> {
            let crd = json!({
                "metadata": {"name": "ships.fleet.example.com"},
                "spec": {"group": "fleet.example.com", "scope": "Cluster", "names": names},
            });
            validate_names(&crd).into_iter().map(|cause| cause.field).collect()
        };
        let names = json!({"plural": "ships", "singular": "ship", "kind": "Ship", "listKind": "ShipList"});
        assert_eq!(wrong(names.clone()), [""; 0]);
        let mut odd = names.clone();
        odd["singular"] = "Ship".into();
        odd["kind"] = "Ship_".into();
        odd["listKind"] = "Ship_".into();
        odd["shortNames"] = json!(["s", "S"]);
        let expected = [
            "spec.names.singular",
            "spec.names.kind",
            "spec.names.listKind",
            "spec.names.listKind",
            "spec.names.shortNames[1]",
        ];
        assert_eq!(wrong(odd), expected);
    }
}
