//! The types that only expressions of mutations know: `Object{…}`, `Object.spec{…}` and so on, and `JSONPatch{…}`. The
//! evaluator has no such types. An expression makes maps instead that carry the name of their type ([`TYPE`]), and this
//! module reads JSON from them. As upstream, names of types are compared with the fields that they are in only then.

use super::{budget, types};
use chrono::SecondsFormat;
use kube_cel::cel::common::ast::{EntryExpr, IdedEntryExpr, StructFieldExpr};
use kube_cel::cel::objects::{Key, Map, Opaque};
use kube_cel::cel::{Context, ExecutionError, Value as Cel};
use serde_json::{Map as Fields, Number, Value, json};
use std::sync::Arc;

/// The key under which a made map has its type. The value under it cannot be written in an expression.
pub(super) const TYPE: &str = "\0type";
/// Gives the value under [`TYPE`].
pub(super) const NAMED: &str = "#named";
/// `jsonpatch.escapeKey`.
pub(super) const ESCAPE_KEY: &str = "#escapeKey";

const OBJECT: &str = "Object";
const JSON_PATCH: &str = "JSONPatch";
/// What the construction of an object costs, as upstream.
const CONSTRUCTION: u64 = 40;
/// The most bytes that an expression may make, as large as a request. Values share their parts: a few variables that each
/// contain the one before twice could fill the memory otherwise.
const LARGEST: usize = 3 << 20;
/// The deepest that a made value may nest, as deep as an object.
const DEEPEST: usize = 100;
/// From here on a double does not have all integers.
const EXACT: u64 = 1 << 53;

/// Whether expressions of mutations know a type.
pub(super) fn is_type(name: &str) -> bool {
    name == JSON_PATCH || name == OBJECT || name.starts_with("Object.")
}

/// Says what is wrong with a field of a construction. An object may have any field.
pub(super) fn wrong_field(type_name: &str, field: &StructFieldExpr) -> Option<String> {
    if type_name != JSON_PATCH || field.field == "value" {
        return None;
    }
    let name = &field.field;
    if !["op", "path", "from"].contains(&name.as_str()) {
        return Some(format!("undefined field '{name}'"));
    }
    // What need not be there has another type, which is not known.
    let given = types::definite(&field.value).filter(|given| !field.optional && given != "string");
    let given = given.filter(|given| given != "dyn")?;
    Some(format!("expected type of field '{name}' is 'string' but provided type is '{given}'"))
}

/// The field of a construction that an entry is.
pub(super) fn field_of(entry: IdedEntryExpr) -> Option<StructFieldExpr> {
    match entry.expr {
        EntryExpr::StructField(field) => Some(field),
        EntryExpr::MapEntry(_) => None,
    }
}

/// The name of a type.
#[derive(Debug, PartialEq, Eq)]
struct Name(String);

impl Opaque for Name {
    fn runtime_type_name(&self) -> &str {
        "dev.capstan.name"
    }
}

// The evaluator hands over values, not references.
#[allow(clippy::needless_pass_by_value)]
pub(super) fn register(context: &mut Context<'_>) {
    context.add_function(NAMED, |name: Arc<String>| {
        budget::spend(CONSTRUCTION).map(|()| Cel::Opaque(Arc::new(Name(name.to_string()))))
    });
    context.add_function(ESCAPE_KEY, |key: Arc<String>| {
        Ok::<_, ExecutionError>(Cel::String(Arc::new(key.replace('~', "~0").replace('/', "~1"))))
    });
}

/// The type of a value that was made; nothing if it is another value.
fn type_of(value: &Cel) -> Option<&str> {
    let Cel::Map(map) = value else { return None };
    let Cel::Opaque(name) = field(map, TYPE)? else { return None };
    name.downcast_ref::<Name>().map(|name| name.0.as_str())
}

fn field<'a>(map: &'a Map, name: &str) -> Option<&'a Cel> {
    map.map.get(&Key::String(Arc::new(name.to_string())))
}

/// The configuration that an expression has made.
pub(super) fn configuration(value: &Cel) -> Result<Value, String> {
    if type_of(value) != Some(OBJECT) {
        let found = type_of(value).map_or_else(|| type_name(value), str::to_string);
        return Err(format!("unsupported return type from ApplyConfiguration expression: {found}"));
    }
    let configuration = Reader::new(false).value(value, 0)?;
    check_names(value)?;
    Ok(configuration)
}

/// The JSON patch that an expression has made.
pub(super) fn patch(value: &Cel) -> Result<Value, String> {
    let Cel::List(steps) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_string());
    };
    let mut reader = Reader::new(true);
    let step = |step: &Cel| {
        let Some(fields) = step_fields(step) else {
            let found = type_of(step).map_or_else(|| type_name(step), str::to_string);
            return Err(format!(
                "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of {found}"
            ));
        };
        let text = |name: &str| match field(fields, name) {
            None => Ok(String::new()),
            Some(Cel::String(text)) => Ok(text.to_string()),
            Some(other) => {
                Err(format!("unexpected type {} for JSONPatchType '{name}' field", type_name(other)))
            }
        };
        let mut step = json!({"op": text("op")?, "path": text("path")?});
        reader.take(step["path"].as_str().map_or(0, str::len))?;
        let from = text("from")?;
        if !from.is_empty() {
            step["from"] = from.into();
        }
        if let Some(value) = field(fields, "value") {
            step["value"] = reader.value(value, 0)?;
            if type_of(value).is_some() {
                check_names(value)?;
            }
        }
        Ok(step)
    };
    Ok(Value::Array(steps.iter().map(step).collect::<Result<_, String>>()?))
}

fn step_fields(step: &Cel) -> Option<&Map> {
    match step {
        Cel::Map(fields) if type_of(step) == Some(JSON_PATCH) => Some(fields),
        _ => None,
    }
}

/// Compares the types of all that is made in a value with the fields they are in.
fn check_names(value: &Cel) -> Result<(), String> {
    let mut wrong = Vec::new();
    compare_names(value, type_of(value).unwrap_or_default(), &mut wrong);
    if wrong.is_empty() {
        return Ok(());
    }
    wrong.sort();
    Err(format!("type mismatch: {}", wrong.join("\n")))
}

fn compare_names(value: &Cel, expected: &str, wrong: &mut Vec<String>) {
    match value {
        Cel::List(items) => items.iter().for_each(|item| compare_names(item, expected, wrong)),
        Cel::Map(map) => {
            let name = type_of(value);
            if let Some(name) = name.filter(|name| *name != expected) {
                wrong.push(format!(
                    "unexpected type name {name:?}, expected {expected:?}, which matches field name path from root \
                     Object type"
                ));
            }
            for (key, inner) in map.map.iter() {
                match key {
                    Key::String(key) if name.is_some() => {
                        compare_names(inner, &format!("{expected}.{key}"), wrong);
                    }
                    _ => compare_names(inner, expected, wrong),
                }
            }
        }
        _ => {}
    }
}

/// Reads JSON from values, as much as may be.
struct Reader {
    left: usize,
    /// Whether numbers are doubles in between, as upstream's values of JSON patches are.
    doubles: bool,
}

impl Reader {
    fn new(doubles: bool) -> Self {
        Reader { left: LARGEST, doubles }
    }

    fn take(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| format!("the expression makes more than {LARGEST} bytes"))?;
        Ok(())
    }

    fn value(&mut self, value: &Cel, depth: usize) -> Result<Value, String> {
        if depth > DEEPEST {
            return Err(format!("the expression makes a value that nests deeper than {DEEPEST} levels"));
        }
        // As much as it takes at least as text.
        self.take(2)?;
        Ok(match value {
            Cel::Null => Value::Null,
            Cel::Bool(flag) => Value::Bool(*flag),
            Cel::Int(number) if self.doubles && number.unsigned_abs() >= EXACT => number.to_string().into(),
            Cel::Int(number) => Value::from(*number),
            Cel::UInt(number) if self.doubles && *number >= EXACT => number.to_string().into(),
            Cel::UInt(number) => Value::from(*number),
            Cel::Float(number) => self.double(*number)?,
            Cel::String(text) => self.text(text)?,
            Cel::Timestamp(time) => time.to_rfc3339_opts(SecondsFormat::AutoSi, true).into(),
            Cel::Duration(duration) => {
                let seconds = duration.num_nanoseconds().map_or(0.0, |nanos| nanos as f64 / 1e9);
                format!("{seconds}s").into()
            }
            Cel::List(items) => {
                let items = items.iter().map(|item| self.value(item, depth + 1));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Cel::Map(map) => self.map(map, depth)?,
            other => return Err(format!("a value of type {} cannot be written as JSON", type_name(other))),
        })
    }

    fn text(&mut self, text: &str) -> Result<Value, String> {
        self.take(text.len())?;
        Ok(text.into())
    }

    fn double(&self, number: f64) -> Result<Value, String> {
        // It has no fraction and is small enough.
        #[allow(clippy::cast_possible_truncation)]
        if self.doubles && number.fract() == 0.0 && number.abs() < EXACT as f64 {
            return Ok((number as i64).into());
        }
        let number = Number::from_f64(number).ok_or_else(|| format!("{number} cannot be written as JSON"))?;
        Ok(Value::Number(number))
    }

    fn map(&mut self, map: &Map, depth: usize) -> Result<Value, String> {
        let mut entries = Vec::with_capacity(map.map.len());
        for (key, value) in map.map.iter() {
            let Key::String(name) = key else {
                return Err(format!("map key {key} is not a string"));
            };
            let is_name = name.as_str() == TYPE && matches!(value, Cel::Opaque(_));
            if !is_name {
                entries.push((name.to_string(), value));
            }
        }
        // Maps of the evaluator have no order.
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut fields = Fields::with_capacity(entries.len());
        for (name, value) in entries {
            self.take(name.len())?;
            fields.insert(name, self.value(value, depth + 1)?);
        }
        Ok(Value::Object(fields))
    }
}

fn type_name(value: &Cel) -> String {
    match value {
        Cel::Bool(_) => "bool".to_string(),
        Cel::Bytes(_) => "bytes".to_string(),
        Cel::Duration(_) => "duration".to_string(),
        Cel::Float(_) => "double".to_string(),
        Cel::Int(_) => "int".to_string(),
        Cel::List(_) => "list".to_string(),
        Cel::Map(_) => "map".to_string(),
        Cel::Null => "null_type".to_string(),
        Cel::String(_) => "string".to_string(),
        Cel::Timestamp(_) => "timestamp".to_string(),
        Cel::UInt(_) => "uint".to_string(),
        Cel::Opaque(opaque) => opaque.runtime_type_name().to_string(),
        Cel::Function(..) => "function".to_string(),
    }
}
