//! Variables of a class.

use super::words;
use crate::field;
use crate::variables::{nested_schemas, validate_schema};
use capstan_api::core::ClusterClassVariable;
use capstan_apiserver_schema::FieldError;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const AT: &str = "spec.variables";

pub(super) fn check(variables: &[ClusterClassVariable]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for variable in variables {
        let at = field::entry(AT, &variable.name);
        let name = field::child(&at, "name");
        if !seen.insert(&variable.name) {
            errors.push(field::invalid(&name, variable.name.as_str(), "must be unique"));
        }
        if variable.name.is_empty() {
            errors.push(field::required(&name, "name of the variable"));
        }
        if variable.name == "builtin" {
            errors.push(field::invalid(
                &name,
                variable.name.as_str(),
                "is reserved for what describes the cluster",
            ));
        }
        if variable.name.contains('.') {
            errors.push(field::invalid(
                &name,
                variable.name.as_str(),
                "must not contain a dot, which separates fields",
            ));
        }
        if let Some(metadata) = &variable.deprecated_v1beta1_metadata {
            let at = field::child(&at, "deprecatedV1Beta1Metadata");
            errors.extend(words::labels_and_annotations(&metadata.labels, &metadata.annotations, &at));
        }
        let at = field::child(&at, "schema.openAPIV3Schema");
        if let Ok(written) = serde_json::to_value(&variable.schema.open_api_v3_schema) {
            metadata(&written, &at, &mut errors);
        }
        errors.extend(validate_schema(&variable.schema.open_api_v3_schema, &at));
    }
    errors
}

/// Labels and annotations of a schema and of the schemas in it.
fn metadata(written: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if let Some(given) = written.get("x-metadata") {
        let texts = |field: &str| -> BTreeMap<String, String> {
            given.get(field).and_then(|texts| serde_json::from_value(texts.clone()).ok()).unwrap_or_default()
        };
        let at = field::child(at, "x-metadata");
        errors.extend(words::labels_and_annotations(&texts("labels"), &texts("annotations"), &at));
    }
    for (path, schema) in nested_schemas(written, at) {
        metadata(schema, &path, errors);
    }
}
