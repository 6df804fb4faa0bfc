//! The schema as written: reads keywords from JSON, and rejects keywords of the wrong form before any other check. The
//! meaning of a schema is determined elsewhere.

use crate::error::FieldError;
use crate::gotext;
use crate::path;
use serde_json::Value;

/// One schema of an `openAPIV3Schema`, as written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a>(&'a Value);

/// `additionalProperties` is a schema or a yes or no.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RawAdditional<'a> {
    Allowed(bool),
    Schema(Raw<'a>),
}

impl<'a> Raw<'a> {
    pub(crate) fn new(value: &'a Value) -> Raw<'a> {
        Raw(value)
    }

    /// All of it.
    pub(crate) fn written(self) -> &'a Value {
        self.0
    }

    /// The value of a keyword; null is the same as absent.
    pub(crate) fn get(self, keyword: &str) -> Option<&'a Value> {
        self.0.get(keyword).filter(|value| !value.is_null())
    }

    pub(crate) fn keywords(self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.0.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null())
    }

    pub(crate) fn text(self, keyword: &str) -> &'a str {
        self.get(keyword).and_then(Value::as_str).unwrap_or_default()
    }

    /// The `type`, empty if there is none.
    pub(crate) fn ty(self) -> &'a str {
        self.text("type")
    }

    pub(crate) fn flag(self, keyword: &str) -> bool {
        self.get(keyword).and_then(Value::as_bool).unwrap_or_default()
    }

    pub(crate) fn list(self, keyword: &str) -> &'a [Value] {
        self.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn texts(self, keyword: &str) -> Vec<String> {
        self.list(keyword).iter().filter_map(Value::as_str).map(String::from).collect()
    }

    pub(crate) fn schemas(self, keyword: &str) -> impl Iterator<Item = Raw<'a>> {
        self.list(keyword).iter().map(Raw)
    }

    pub(crate) fn schema(self, keyword: &str) -> Option<Raw<'a>> {
        self.get(keyword).filter(|value| value.is_object()).map(Raw)
    }

    pub(crate) fn properties(self) -> impl Iterator<Item = (&'a String, Raw<'a>)> {
        let fields = self.get("properties").and_then(Value::as_object);
        fields.into_iter().flatten().map(|(name, schema)| (name, Raw(schema)))
    }

    pub(crate) fn property(self, name: &str) -> Option<Raw<'a>> {
        self.get("properties")?.get(name).map(Raw)
    }

    pub(crate) fn has_properties(self) -> bool {
        self.properties().next().is_some()
    }

    pub(crate) fn additional(self) -> Option<RawAdditional<'a>> {
        Some(match self.get("additionalProperties")? {
            Value::Bool(allowed) => RawAdditional::Allowed(*allowed),
            schema => RawAdditional::Schema(Raw(schema)),
        })
    }

    pub(crate) fn additional_schema(self) -> Option<Raw<'a>> {
        match self.additional() {
            Some(RawAdditional::Schema(schema)) => Some(schema),
            _ => None,
        }
    }

    /// Calls `visit` for this schema and every schema within, each with its path.
    pub(crate) fn walk(self, at: &str, visit: &mut dyn FnMut(Raw<'a>, &str)) {
        visit(self, at);
        for (name, schema) in self.properties() {
            schema.walk(&path::key(&path::child(at, "properties"), name), visit);
        }
        if let Some(schema) = self.additional_schema() {
            schema.walk(&path::child(at, "additionalProperties"), visit);
        }
        for keyword in ["items", "not"] {
            if let Some(schema) = self.schema(keyword) {
                schema.walk(&path::child(at, keyword), visit);
            }
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for (i, schema) in self.schemas(keyword).enumerate() {
                schema.walk(&path::index(&path::child(at, keyword), i), visit);
            }
        }
    }
}

/// Refuses keywords whose value is of the wrong kind, so that no later step takes them for absent.
pub(crate) fn check_shape(root: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if !root.is_object() {
        errors.push(wrong(at, root, "an object"));
        return;
    }
    Raw(root).walk(at, &mut |schema, at| {
        if !schema.0.is_object() {
            errors.push(wrong(at, schema.0, "an object"));
        }
        for (keyword, value) in schema.keywords() {
            if let Some(expected) = misfit(keyword, value) {
                errors.push(wrong(&path::child(at, keyword), value, expected));
            }
        }
    });
}

fn wrong(at: &str, value: &Value, expected: &str) -> FieldError {
    FieldError::invalid(at, value.clone(), format!("must be {expected}, got {}", gotext::json(value)))
}

/// What the value of `keyword` should have been, if it is not that.
fn misfit(keyword: &str, value: &Value) -> Option<&'static str> {
    let (fits, expected) = match keyword {
        "type"
        | "format"
        | "pattern"
        | "title"
        | "description"
        | "id"
        | "$ref"
        | "$schema"
        | "x-kubernetes-list-type"
        | "x-kubernetes-map-type" => (value.is_string(), "a string"),
        "nullable"
        | "exclusiveMaximum"
        | "exclusiveMinimum"
        | "uniqueItems"
        | "x-kubernetes-int-or-string"
        | "x-kubernetes-preserve-unknown-fields"
        | "x-kubernetes-embedded-resource" => (value.is_boolean(), "a boolean"),
        "maximum" | "minimum" | "multipleOf" => (value.is_number(), "a number"),
        "maxLength" | "minLength" | "maxItems" | "minItems" | "maxProperties" | "minProperties" => {
            (value.is_i64(), "an integer")
        }
        "properties" | "patternProperties" | "definitions" | "dependencies" | "not" => {
            (value.is_object(), "an object")
        }
        "allOf" | "anyOf" | "oneOf" | "enum" | "x-kubernetes-validations" => (value.is_array(), "a list"),
        "required" | "x-kubernetes-list-map-keys" => {
            let strings = value.as_array().is_some_and(|items| items.iter().all(Value::is_string));
            (strings, "a list of strings")
        }
        "items" => (value.is_object() || value.is_array(), "a schema"),
        "additionalProperties" => (value.is_object() || value.is_boolean(), "a schema or a boolean"),
        _ => (true, ""),
    };
    (!fits).then_some(expected)
}
