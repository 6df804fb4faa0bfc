//! Values of templates: from JSON, to JSON, from YAML.

use super::TemplateError;
use gotmpl::Value;
use serde_json::{Map, Number, Value as Json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many nodes the aliases of one YAML document may stand for.
const ALIASED: usize = 10_000;
/// Integers beyond this are not exact in a `float64`.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// What a template sees.
#[derive(Clone, Debug)]
pub(crate) struct Data(Value);

impl Data {
    /// A JSON value as data of a template.
    pub(crate) fn new(json: &Json) -> Data {
        Data(from_json(json))
    }

    pub(super) fn value(&self) -> &Value {
        &self.0
    }
}

/// Every number is a `float64`, as Go reads JSON without a type.
pub(super) fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => Value::Float(number.as_f64().unwrap_or_default()),
        Json::String(text) => Value::String(text.as_str().into()),
        Json::Array(items) => Value::List(items.iter().map(from_json).collect()),
        Json::Object(fields) => {
            let entries: BTreeMap<Arc<str>, Value> =
                fields.iter().map(|(name, value)| (name.as_str().into(), from_json(value))).collect();
            Value::Map(Arc::new(entries))
        }
    }
}

/// A value as JSON; whole numbers are integers. `None` for a function.
pub(super) fn to_json(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Nil => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Int(number) => Json::from(*number),
        Value::Uint(number) => Json::from(*number),
        Value::Float(number) => self::number(*number)?,
        Value::String(text) => Json::String(text.to_string()),
        Value::List(items) => Json::Array(items.iter().map(to_json).collect::<Option<_>>()?),
        Value::Map(entries) => {
            let fields = entries.iter().map(|(key, value)| Some((key.to_string(), to_json(value)?)));
            Json::Object(fields.collect::<Option<Map<_, _>>>()?)
        }
        Value::Function(_) => return None,
    })
}

fn number(number: f64) -> Option<Json> {
    if number.fract() == 0.0 && number.abs() < EXACT {
        // Exact: it is whole and below 2^53.
        return Some(Json::from(number as i64));
    }
    Number::from_f64(number).map(Json::Number)
}

/// YAML as upstream reads it: YAML 1.1 where it matters, the last of duplicate keys, whole floats as integers.
pub(super) fn from_yaml(text: &str) -> Result<Json, TemplateError> {
    let limits = serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED };
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        alias_limits: limits
    };
    let document: Option<Json> = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| TemplateError::Yaml(error.to_string()))?;
    let mut document = document.unwrap_or_default();
    whole(&mut document);
    Ok(document)
}

fn whole(json: &mut Json) {
    match json {
        Json::Number(written) if written.is_f64() => {
            if let Some(integer) = written.as_f64().and_then(number) {
                *json = integer;
            }
        }
        Json::Array(items) => items.iter_mut().for_each(whole),
        Json::Object(fields) => fields.values_mut().for_each(whole),
        _ => {}
    }
}
