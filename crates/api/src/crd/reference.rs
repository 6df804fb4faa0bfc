//! Reference of all fields in Markdown, from the CRDs. No I/O.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use std::fmt::Write as _;

use super::CustomResourceDefinition;

/// Fields of all objects. The reference omits them.
const OF_ALL_OBJECTS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The page of one kind.
pub fn page(crd: &CustomResourceDefinition) -> String {
    let names = &crd.spec.names;
    let mut page = format!("# {}\n", names.kind);
    for version in crd.spec.versions.iter().filter(|version| version.served) {
        let Some(schema) = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref())
        else {
            continue;
        };
        // Writing to a String cannot fail.
        _ = write!(page, "\n`{}/{}`, {}.\n", crd.spec.group, version.name, crd.spec.scope.to_lowercase());
        if let Some(text) = &schema.description {
            _ = write!(page, "\n{}\n", text.trim());
        }
        page.push_str("\n| Field | Type | Meaning |\n|---|---|---|\n");
        for (name, field) in schema.properties.iter().flatten() {
            if !OF_ALL_OBJECTS.contains(&name.as_str()) {
                let required = is_required(schema, name);
                rows(&mut page, name, field, required);
            }
        }
    }
    page
}

/// File name of the page.
pub fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.md", crd.spec.group, crd.spec.names.plural)
}

/// The index page.
pub fn index(crds: &[CustomResourceDefinition]) -> String {
    let mut page =
        "# Every field\n\nMade from the types by `make generate`.\n\n| Kind | Group |\n|---|---|\n"
            .to_owned();
    for crd in crds {
        _ = writeln!(page, "| [{}]({}) | `{}` |", crd.spec.names.kind, file_name(crd), crd.spec.group);
    }
    page
}

/// The row of a field, and the rows of its fields.
fn rows(page: &mut String, path: &str, field: &JSONSchemaProps, required: bool) {
    let (inner, suffix) = unwrapped(field);
    _ = writeln!(page, "| `{path}` | {} | {} |", type_of(field), meaning(field, required));
    for (name, below) in inner.properties.iter().flatten() {
        rows(page, &format!("{path}{suffix}.{name}"), below, is_required(inner, name));
    }
}

fn is_required(object: &JSONSchemaProps, name: &str) -> bool {
    object.required.iter().flatten().any(|required| required == name)
}

/// The schema of the items of a list or of the values of a map, with the suffix for the name.
fn unwrapped(field: &JSONSchemaProps) -> (&JSONSchemaProps, &'static str) {
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &field.items {
        return (item, "[]");
    }
    if let Some(JSONSchemaPropsOrBool::Schema(value)) = &field.additional_properties {
        return (value, ".*");
    }
    (field, "")
}

fn type_of(field: &JSONSchemaProps) -> String {
    if field.x_kubernetes_int_or_string == Some(true) {
        return "integer or string".to_owned();
    }
    let (inner, suffix) = unwrapped(field);
    let own = field.type_.as_deref().unwrap_or("any");
    match (suffix, field.format.as_deref()) {
        ("[]", _) => format!("list of {}", type_of(inner)),
        (".*", _) => format!("map of {}", type_of(inner)),
        (_, Some("date-time")) => "time".to_owned(),
        _ => own.to_owned(),
    }
}

/// Description and constraints of a field.
fn meaning(field: &JSONSchemaProps, required: bool) -> String {
    let mut sentences: Vec<String> = field.description.iter().map(|text| one_line(text)).collect();
    if required {
        sentences.push("Required.".to_owned());
    }
    if let Some(values) = &field.enum_ {
        let values: Vec<String> = values.iter().map(code).collect();
        sentences.push(format!("One of {}.", values.join(", ")));
    }
    if let Some(default) = &field.default {
        sentences.push(format!("Default: {}.", code(default)));
    }
    let limits = [("At least", field.minimum), ("At most", field.maximum)];
    sentences
        .extend(limits.iter().filter_map(|(words, limit)| limit.map(|limit| format!("{words} {limit}."))));
    for rule in field.x_kubernetes_validations.iter().flatten() {
        let text = rule.message.clone().unwrap_or_else(|| format!("`{}`", one_line(&rule.rule)));
        sentences.push(format!("Rule: {}.", one_line(&text).trim_end_matches('.')));
    }
    sentences.join(" ")
}

fn code(value: &JSON) -> String {
    format!("`{}`", value.0).replace('|', "\\|")
}

/// Text for a table cell.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd;

    #[test]
    fn a_page_has_type_limits_and_meaning() {
        let all = crd::all();
        let host = all.iter().find(|crd| crd.spec.names.kind == "Host").expect("a Host");
        let page = page(host);
        let row = |start: &str| page.lines().find(|line| line.starts_with(start)).expect("a row").to_owned();
        assert!(row("| `spec.ssh.address` |").contains("| string |"), "{page}");
        assert!(row("| `spec.claim.id` |").contains("Required."));
        assert!(row("| `spec.ssh.hostKeys` |").contains("| list of string |"));
        assert!(row("| `status.conditions[].type` |").contains("Required."));
        assert!(!page.contains("| `metadata`") && !page.contains("\n\n\n"), "{page}");
    }

    #[test]
    fn everything_of_ours_has_a_meaning() {
        for crd in crd::all().iter().filter(|crd| crd.spec.names.kind.contains("Host")) {
            for row in page(crd).lines().filter(|line| line.starts_with("| `spec")) {
                assert!(!row.ends_with("|  |"), "{}: {row}", crd.spec.names.kind);
            }
        }
    }
}
