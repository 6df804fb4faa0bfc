//! The places of a CRD's schema: its fields and its rules, and which of the fields an object uses.
//!
//! A path is written as in `.spec.files[].content` and `.metadata.labels{}`, as in the facts of upstream.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value};

pub(crate) struct Places {
    schema: Value,
    pub(crate) fields: BTreeSet<String>,
    pub(crate) rules: Vec<Rule>,
}

/// A CEL rule.
pub(crate) struct Rule {
    pub(crate) path: String,
    pub(crate) rule: String,
    pub(crate) message: String,
}

impl Places {
    pub(crate) fn of(crd: &CustomResourceDefinition) -> Self {
        let version = serde_json::to_value(&crd.spec.versions[0]).unwrap();
        let schema = version["schema"]["openAPIV3Schema"].clone();
        let mut places = Self { schema: Value::Null, fields: BTreeSet::new(), rules: Vec::new() };
        places.walk("", &schema);
        Self { schema, ..places }
    }

    fn walk(&mut self, path: &str, schema: &Value) {
        self.fields.insert(path.to_owned());
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let text = |keyword: &str| rule[keyword].as_str().unwrap().to_owned();
            self.rules.push(Rule { path: path.to_owned(), rule: text("rule"), message: text("message") });
        }
        if is_opaque(schema) {
            return;
        }
        for (name, property) in properties(path, schema) {
            self.walk(&format!("{path}.{name}"), property);
        }
        if schema["items"].is_object() {
            self.walk(&format!("{path}[]"), &schema["items"]);
        }
        if schema["additionalProperties"].is_object() {
            self.walk(&format!("{path}{{}}"), &schema["additionalProperties"]);
        }
    }

    /// The fields that an object uses, those that the schema lacks included.
    pub(crate) fn used_by(&self, object: &Value) -> BTreeSet<String> {
        let mut used = BTreeSet::new();
        follow("", &self.schema, object, &mut used);
        used
    }
}

fn follow(path: &str, schema: &Value, value: &Value, used: &mut BTreeSet<String>) {
    used.insert(path.to_owned());
    if is_opaque(schema) {
        return;
    }
    match value {
        Value::Object(fields) if schema["additionalProperties"].is_object() => {
            for field in fields.values() {
                follow(&format!("{path}{{}}"), &schema["additionalProperties"], field, used);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields.iter().filter(|(name, _)| !is_on_every_object(path, name)) {
                follow(&format!("{path}.{name}"), &schema["properties"][name], field, used);
            }
        }
        Value::Array(items) => {
            for item in items {
                follow(&format!("{path}[]"), &schema["items"], item, used);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn properties<'a>(path: &str, schema: &'a Value) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let properties = schema["properties"].as_object().into_iter().flat_map(Map::iter);
    properties.filter(move |(name, _)| !is_on_every_object(path, name))
}

fn is_on_every_object(path: &str, name: &str) -> bool {
    path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name)
}

/// Anything may stand there.
fn is_opaque(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}
