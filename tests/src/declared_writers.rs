//! Compares the field managers of objects with the table of declared writers.

use std::collections::BTreeSet;

use capstan_api::declared::controllers;
use serde_json::Value;

/// Checks that every field that a controller of Capstan has written is one that it has declared, in a list with managed fields.
/// Returns the controllers that have written something.
///
/// # Panics
/// If a field was not declared.
#[must_use]
pub fn declared_writers(listed: &Value) -> BTreeSet<&'static str> {
    let (mut undeclared, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for object in listed["items"].as_array().into_iter().flatten() {
        let kind = object["kind"].as_str().unwrap_or_default();
        for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
            let manager = entry["manager"].as_str().unwrap_or_default();
            let mut writers = controllers().iter().filter(|one| one.managers.contains(&manager));
            let Some(writer) = writers.next() else {
                if manager.starts_with("capstan-") || manager.starts_with("capi-") {
                    undeclared.insert(format!("{manager} (of no controller)"));
                }
                continue;
            };
            seen.insert(writer.name);
            for field in written(&entry["fieldsV1"]) {
                if !writer.writes.iter().any(|output| output.covers(kind, &field)) {
                    undeclared.insert(format!("{} writes {field} of {kind}", writer.name));
                }
            }
        }
    }
    assert!(undeclared.is_empty(), "{undeclared:#?}");
    seen
}

/// The paths in a set of managed fields, without what several controllers add to by contract.
fn written(fields: &Value) -> BTreeSet<String> {
    fn walk(fields: &Value, path: &str, found: &mut BTreeSet<String>) {
        let below: Vec<(&String, &Value)> =
            fields.as_object().into_iter().flatten().filter(|(key, _)| *key != ".").collect();
        if below.is_empty() {
            found.insert(path.to_owned());
        }
        for (key, value) in below {
            let next = match (key.strip_prefix("f:"), key.strip_prefix("k:"), path) {
                (Some(key), _, "metadata.labels" | "metadata.annotations") => format!("{path}[{key}]"),
                (Some(key), _, "") => key.to_owned(),
                (Some(key), _, _) => format!("{path}.{key}"),
                (_, Some(item), _) => {
                    let item: Value = serde_json::from_str(item).unwrap_or_default();
                    format!("{path}[{}]", item["type"].as_str().unwrap_or_default())
                }
                _ => format!("{path}[]"),
            };
            walk(value, &next, found);
        }
    }
    let mut found = BTreeSet::new();
    walk(fields, "", &mut found);
    let is_shared = |path: &str| {
        ["metadata.finalizers", "metadata.ownerReferences"].iter().any(|shared| path.starts_with(shared))
            || [
                "metadata.labels",
                "metadata.annotations",
                "metadata.labels[cluster.x-k8s.io/cluster-name]",
                "spec",
                "",
            ]
            .contains(&path)
    };
    found.into_iter().filter(|path| !is_shared(path)).collect()
}
