//! A CRD boiled down to comparable facts: a map from place to value.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Facts {
    pub(crate) crd: String,
    /// Places of the CRD as a whole (`scope`, `column Age`) and of its fields (`.spec.version maxLength`).
    facts: BTreeMap<String, Value>,
    /// Fields without a description.
    pub(crate) undescribed: Vec<String>,
}

/// Keywords that matter to an API server or its clients, in the form of the upstream facts.
const KEYWORDS: [&str; 20] = [
    "type",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "enum",
    "default",
    "nullable",
    "anyOf",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
];

impl Facts {
    pub(crate) fn of_upstream(line: &Value) -> Self {
        let mut facts = BTreeMap::new();
        for key in ["kind", "scope", "served", "storage"] {
            facts.insert(key.to_owned(), line[key].clone());
        }
        facts.insert("shortNames".to_owned(), set(&line["shortNames"]));
        facts.insert("categories".to_owned(), set(&line["categories"]));
        subresources(&mut facts, &line["subresources"]);
        columns(&mut facts, &line["printerColumns"]);
        for field in line["fields"].as_array().unwrap() {
            let path = field["path"].as_str().unwrap();
            for (keyword, value) in field.as_object().unwrap() {
                let value = if keyword == "cel" { rules(value) } else { value.clone() };
                if keyword != "path" {
                    facts.insert(format!("{path} {keyword}"), normal(keyword, value));
                }
            }
        }
        Self { crd: line["crd"].as_str().unwrap().to_owned(), facts, undescribed: Vec::new() }
    }

    pub(crate) fn of_crd(crd: &CustomResourceDefinition) -> Self {
        let crd = serde_json::to_value(crd).unwrap();
        let spec = &crd["spec"];
        let versions = spec["versions"].as_array().unwrap();
        let named = |flag: &str| -> Value {
            versions.iter().filter(|v| v[flag] == json!(true)).map(|v| v["name"].clone()).collect()
        };
        let stored = versions.iter().find(|v| v["storage"] == json!(true)).unwrap();
        let mut facts = BTreeMap::from([
            ("kind".to_owned(), spec["names"]["kind"].clone()),
            ("scope".to_owned(), spec["scope"].clone()),
            ("served".to_owned(), named("served")),
            ("storage".to_owned(), named("storage")),
            ("shortNames".to_owned(), set(&spec["names"]["shortNames"])),
            ("categories".to_owned(), set(&spec["names"]["categories"])),
        ]);
        subresources(&mut facts, &stored["subresources"]);
        columns(&mut facts, &stored["additionalPrinterColumns"]);
        let mut this = Self {
            crd: crd["metadata"]["name"].as_str().unwrap().to_owned(),
            facts,
            undescribed: Vec::new(),
        };
        this.walk(".", &stored["schema"]["openAPIV3Schema"], false);
        this
    }

    fn walk(&mut self, path: &str, schema: &Value, required: bool) {
        for keyword in KEYWORDS {
            if let Some(value) = schema.get(keyword) {
                self.facts.insert(format!("{path} {keyword}"), normal(keyword, value.clone()));
            }
        }
        if let Some(cel) = schema.get("x-kubernetes-validations") {
            self.facts.insert(format!("{path} cel"), rules(cel));
        }
        if required {
            self.facts.insert(format!("{path} required"), json!(true));
        }
        if schema.get("description").is_none() && !path.ends_with(['}', ']']) {
            self.undescribed.push(path.to_owned());
        }
        let requires: BTreeSet<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let stem = path.trim_end_matches('.');
        for (name, property) in schema["properties"].as_object().unwrap_or(&Map::new()) {
            let implied = path == "." && ["apiVersion", "kind", "metadata"].contains(&name.as_str());
            if !implied {
                self.walk(&format!("{stem}.{name}"), property, requires.contains(name.as_str()));
            }
        }
        if schema["items"].is_object() {
            self.walk(&format!("{stem}[]"), &schema["items"], false);
        }
        if schema["additionalProperties"].is_object() {
            self.walk(&format!("{stem}{{}}"), &schema["additionalProperties"], false);
        }
    }
}

/// Every place where the two differ, with both values.
pub(crate) fn difference(theirs: &Facts, ours: &Facts) -> Vec<(String, String)> {
    let places: BTreeSet<&String> = theirs.facts.keys().chain(ours.facts.keys()).collect();
    let show = |value: Option<&Value>| value.map_or("(none)".to_owned(), Value::to_string);
    places
        .into_iter()
        .filter(|place| theirs.facts.get(*place) != ours.facts.get(*place))
        .map(|place| {
            let text =
                format!("upstream {}, ours {}", show(theirs.facts.get(place)), show(ours.facts.get(place)));
            (place.clone(), text)
        })
        .collect()
}

fn normal(keyword: &str, value: Value) -> Value {
    match (keyword, value.as_f64()) {
        // 1 and 1.0 are one limit.
        ("minimum" | "maximum", Some(number)) => json!(number),
        _ if keyword == "enum" => set(&value),
        _ => value,
    }
}

fn set(list: &Value) -> Value {
    let sorted: BTreeSet<&str> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    json!(sorted)
}

fn rules(cel: &Value) -> Value {
    cel.as_array().into_iter().flatten().map(|rule| rule["rule"].clone()).collect()
}

fn subresources(facts: &mut BTreeMap<String, Value>, value: &Value) {
    facts.insert("status subresource".to_owned(), json!(value["status"].is_object()));
    facts.insert("scale subresource".to_owned(), value["scale"].clone());
}

fn columns(facts: &mut BTreeMap<String, Value>, value: &Value) {
    let columns: &[Value] = value.as_array().map_or(&[], Vec::as_slice);
    let names: Vec<&Value> = columns.iter().map(|column| &column["name"]).collect();
    facts.insert("columns".to_owned(), json!(names));
    for (index, column) in columns.iter().enumerate() {
        let shown = json!({
            "type": column["type"], "jsonPath": column["jsonPath"], "priority": column["priority"].as_i64().unwrap_or(0)
        });
        facts.insert(format!("column {index} {}", column["name"].as_str().unwrap()), shown);
    }
}
