//! Compares the table of costs with the schemas of the API: every field has a class, and every row has a field.

#![cfg(test)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use capstan_api::crd;
use capstan_distro::cost::{self, Subject, field, fields};
use serde_json::Value;

/// Every leaf below `at`, as the table spells paths.
fn leaves(schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, below) in properties {
            leaves(below, &format!("{at}.{name}"), found);
        }
        return;
    }
    if let Some(below) = schema.get("additionalProperties").filter(|below| below.is_object()) {
        return leaves(below, &format!("{at}.*"), found);
    }
    if let Some(below) = schema.get("items") {
        return leaves(below, &format!("{at}[]"), found);
    }
    let keeps_unknown = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    found.insert(if keeps_unknown { format!("{at}.*") } else { at.to_owned() });
}

fn spec_leaves(subject: Subject) -> BTreeSet<String> {
    static CRDS: LazyLock<Vec<crd::CustomResourceDefinition>> = LazyLock::new(crd::all);
    let crd = CRDS.iter().find(|crd| crd.spec.names.kind == subject.kind()).unwrap();
    let schema = crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
    let schema = serde_json::to_value(schema).unwrap();
    let mut found = BTreeSet::new();
    leaves(&schema["properties"]["spec"], "spec", &mut found);
    found
}

#[test]
fn every_field_of_the_api_is_in_a_class() {
    for subject in Subject::ALL {
        let leaves = spec_leaves(subject);
        assert!(leaves.len() > 3, "{}: {leaves:?}", subject.kind());
        let without: Vec<&String> = leaves.iter().filter(|leaf| field(subject, leaf).is_none()).collect();
        assert!(without.is_empty(), "{}: what do these cost? {without:?}", subject.kind());
    }
}

#[test]
fn every_row_is_about_a_field_of_the_api() {
    for row in fields().iter().filter(|row| row.path != "metadata") {
        let leaves = spec_leaves(row.subject);
        let is_below = |leaf: &String| {
            leaf.strip_prefix(row.path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        assert!(leaves.iter().any(is_below), "{} has no {}", row.subject.kind(), row.path);
    }
}

#[test]
fn the_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cost-of-changes.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, cost::reference()).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(page, cost::reference(), "UPDATE_GOLDEN=1 writes {} anew", path.display());
}
