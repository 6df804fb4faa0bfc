//! The schema of one variable, compiled. A structural schema has an object at its root, so the value of a variable is the
//! field `value` of one.

use crate::field;
use capstan_api::core::JsonSchemaProps;
use capstan_apiserver_schema::{ErrorKind, FieldError, Structural};
use serde_json::{Map, Value, json};

use super::unique;

/// The field that holds the value.
const WRAPPER: &str = "value";
/// The path of a schema in the errors of its compilation, before it is replaced.
const ROOT: &str = "openAPIV3Schema";

/// A compiled schema of a variable.
#[derive(Debug)]
pub struct Schema {
    /// The schema without CEL rules: rules are evaluated only for values of the right structure.
    structure: Structural,
    /// The whole schema, if it has rules.
    rules: Option<Structural>,
    /// The schema as it is written.
    written: Value,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Everything that makes the schema invalid, with paths from `at`.
    pub fn compile(props: &JsonSchemaProps, at: &str) -> Result<Schema, Vec<FieldError>> {
        let written =
            serde_json::to_value(props).map_err(|error| vec![field::internal(at, error.to_string())])?;
        let mut errors = Vec::new();
        let with_rules = convert(&written, true, at, &mut errors);
        let without_rules = convert(&written, false, at, &mut Vec::new());
        if !errors.is_empty() {
            return Err(errors);
        }
        let has_rules = with_rules != without_rules;
        let compiled = compile(&with_rules, at)?;
        let (structure, rules) =
            if has_rules { (compile(&without_rules, at)?, Some(compiled)) } else { (compiled, None) };
        Ok(Schema { structure, rules, written })
    }

    /// Whether the variable has a value when a Cluster does not set it.
    pub fn has_default(&self) -> bool {
        self.written.get("default").is_some()
    }

    /// The value with all defaults. `None` is a variable that is not set.
    pub fn default(&self, value: Option<&Value>) -> Value {
        let mut wrapped = json!({WRAPPER: value});
        self.structure.fill_defaults(&mut wrapped);
        wrapped.get_mut(WRAPPER).map(Value::take).unwrap_or_default()
    }

    /// All errors of a value. `at` is the path of the variable. Rules that use `oldSelf` are evaluated with `old`.
    ///
    /// Other than objects of the API server, values are not ratcheted: a class that changes a schema makes values of
    /// clusters invalid until they are changed.
    pub fn validate(&self, value: &Value, old: Option<&Value>, at: &str) -> Vec<FieldError> {
        let raw = value.to_string();
        let mut wrapped = json!({WRAPPER: value});
        let mut errors = self.structure.validate(&wrapped, None);
        errors.retain(|error| error.path.starts_with(WRAPPER));
        unique::check(&self.written, value, WRAPPER, &mut errors);
        if !errors.is_empty() {
            return told(errors, &raw, at);
        }
        let unknown = self.structure.prune(&mut wrapped);
        if !unknown.is_empty() {
            let below = |path: &String| path.strip_prefix("value.").unwrap_or(path).to_string();
            let fields: Vec<String> = unknown.iter().map(below).collect();
            let why = format!("the schema of the variable has no fields {:?}", fields.join(", "));
            return vec![field::invalid(at, raw, why)];
        }
        let Some(rules) = &self.rules else { return Vec::new() };
        let mut errors = rules.validate(&wrapped, None);
        if let Some(old) = old {
            for error in rules.validate(&wrapped, Some(&json!({WRAPPER: old}))) {
                if !errors.contains(&error) {
                    errors.push(error);
                }
            }
        }
        told(errors, &raw, at)
    }
}

/// Errors of the wrapped value as errors of the variable at `at`, with the whole value.
fn told(errors: Vec<FieldError>, raw: &str, at: &str) -> Vec<FieldError> {
    let told = errors.into_iter().map(|error| {
        let detail = match error.detail.strip_prefix("value in body ") {
            Some(detail) => detail.to_string(),
            None if error.detail.contains(" in body ") => {
                error.detail.strip_prefix("value.").unwrap_or(&error.detail).to_string()
            }
            None => error.detail,
        };
        let path = field::child(at, &error.path);
        FieldError { path, bad_value: Some(Value::from(raw)), detail, ..error }
    });
    told.collect()
}

/// All errors of the schema of a variable, with paths from `at`: what it says itself, and its examples and choices.
pub fn validate_schema(props: &JsonSchemaProps, at: &str) -> Vec<FieldError> {
    let schema = match Schema::compile(props, at) {
        Ok(schema) => schema,
        Err(errors) => return errors,
    };
    let mut errors = Vec::new();
    samples(&schema.written, at, &mut errors);
    errors
}

/// The examples and choices of a schema and of the schemas in it must be valid values.
fn samples(written: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let enums = written.get("enum").and_then(Value::as_array).into_iter().flatten();
    let choices = enums.enumerate().map(|(i, choice)| (field::entry(&field::child(at, "enum"), i), choice));
    let example = written.get("example").map(|example| (field::child(at, "example"), example));
    let samples: Vec<(String, &Value)> =
        example.into_iter().chain(choices).filter(|(_, value)| !value.is_null()).collect();
    if !samples.is_empty() {
        let props = serde_json::from_value(written.clone()).ok();
        if let Some(Ok(schema)) = props.map(|props| Schema::compile(&props, at)) {
            for (path, sample) in samples {
                let found = schema.validate(sample, None, "");
                errors.extend(found.into_iter().map(|error| {
                    let below = error.path.strip_prefix(WRAPPER).unwrap_or_default();
                    FieldError { path: format!("{path}{below}"), ..error }
                }));
            }
        }
    }
    for (path, nested) in nested(written, at) {
        self::samples(nested, &path, errors);
    }
}

/// The schemas of the parts of a value.
pub(crate) fn nested<'a>(written: &'a Value, at: &str) -> Vec<(String, &'a Value)> {
    let mut found = Vec::new();
    for (name, property) in written.get("properties").and_then(Value::as_object).into_iter().flatten() {
        found.push((field::entry(&field::child(at, "properties"), name), property));
    }
    for keyword in ["additionalProperties", "items"] {
        found.extend(written.get(keyword).map(|schema| (field::child(at, keyword), schema)));
    }
    found
}

fn compile(schema: &Value, at: &str) -> Result<Structural, Vec<FieldError>> {
    let wrapped = json!({"type": "object", "properties": {WRAPPER: schema}});
    let wrapper = format!("{ROOT}.properties[{WRAPPER}]");
    Structural::compile_at(&wrapped, ROOT).map_err(|errors| {
        let told = errors.0.into_iter().map(|error| {
            let below = error.path.strip_prefix(&wrapper).or_else(|| error.path.strip_prefix(ROOT));
            let path = below.map_or_else(|| error.path.clone(), |below| format!("{at}{below}"));
            FieldError { path, ..error }
        });
        told.collect()
    })
}

/// Keywords whose values are used as they are.
const PLAIN: &[&str] = &[
    "type",
    "required",
    "maxProperties",
    "minProperties",
    "maxItems",
    "minItems",
    "format",
    "maxLength",
    "minLength",
    "pattern",
    "maximum",
    "minimum",
    "enum",
    "default",
];
/// Keywords that mean something only if they are true.
const FLAGS: &[&str] = &[
    "exclusiveMaximum",
    "exclusiveMinimum",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
];
/// Keywords with a schema.
const ONE: &[&str] = &["additionalProperties", "items", "not"];
/// Keywords with a list of schemas.
const MANY: &[&str] = &["allOf", "anyOf", "oneOf"];

/// A schema of a variable as a schema of a custom resource. Other keywords are left out, as upstream does; `uniqueItems`
/// is checked apart, because custom resources cannot have it.
fn convert(written: &Value, rules: bool, at: &str, errors: &mut Vec<FieldError>) -> Value {
    let Some(keywords) = written.as_object() else {
        errors.push(field::new(at, ErrorKind::TypeInvalid, Some(written.clone()), "must be a schema"));
        return json!({});
    };
    let mut schema = Map::new();
    for (keyword, value) in keywords {
        let path = field::child(at, keyword);
        let keyword_is = |known: &[&str]| known.contains(&keyword.as_str());
        let value = if keyword_is(PLAIN) {
            value.clone()
        } else if keyword_is(FLAGS) {
            if value != &Value::Bool(true) {
                continue;
            }
            value.clone()
        } else if keyword_is(ONE) {
            convert(value, rules, &path, errors)
        } else if keyword_is(MANY) {
            let items = value.as_array().into_iter().flatten().enumerate();
            items.map(|(i, item)| convert(item, rules, &field::entry(&path, i), errors)).collect()
        } else if keyword == "properties" {
            let properties = value.as_object().into_iter().flatten();
            let converted = properties.map(|(name, property)| {
                (name.clone(), convert(property, rules, &field::entry(&path, name), errors))
            });
            Value::Object(converted.collect())
        } else if keyword == "x-kubernetes-validations" && rules {
            value.clone()
        } else {
            continue;
        };
        schema.insert(keyword.clone(), value);
    }
    Value::Object(schema)
}
