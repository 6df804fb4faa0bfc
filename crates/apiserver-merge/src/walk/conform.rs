//! Checks that an object has the shape of its schema, as far as a merge depends on it.

use super::{Part, items};
use crate::fields::Element;
use crate::shape::{ListShape, Scalar, Type};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

/// Where a walk is. Written down only where something is wrong, which is hardly ever.
#[derive(Clone, Copy)]
enum At<'a> {
    Root,
    Field(&'a At<'a>, &'a str),
    Item(&'a At<'a>, &'a Element),
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Root => Ok(()),
            At::Field(above, name) => write!(f, "{above}.{name}"),
            At::Item(above, element) => write!(f, "{above}{element}"),
        }
    }
}

/// What does not conform, as text. Repeated items of sets and maps are tolerated on demand, because objects that are
/// there already may have them.
pub(crate) fn check(ty: &Type, value: &Value, repeated: bool) -> Result<(), String> {
    let mut errors = Vec::new();
    walk(ty, value, At::Root, repeated, &mut errors);
    errors.sort();
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

fn walk(ty: &Type, value: &Value, at: At<'_>, repeated: bool, errors: &mut Vec<String>) {
    let mut refuse = |why: String| {
        errors.push(if matches!(at, At::Root) { why } else { format!("{at}: {why}") });
    };
    match ty.atom().part_for(Some(value)) {
        Part::Scalar(scalar) => {
            if let Some(expected) = misfit(scalar, value) {
                refuse(format!("expected {expected}, got {}", kind(value)));
            }
        }
        Part::Map(map) => match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let at = At::Field(&at, name);
                    match map.field(name) {
                        Some(ty) => walk(ty, field, at, repeated, errors),
                        None => {
                            errors.push(format!("{at}: field not declared in schema"));
                            return;
                        }
                    }
                }
            }
            Value::Null => {}
            other => refuse(format!("expected map, got {}", kind(other))),
        },
        Part::List(list) => match value {
            Value::Array(_) => walk_list(list, value, at, repeated, errors),
            Value::Null => {}
            other => refuse(format!("expected list, got {}", kind(other))),
        },
        Part::Nothing => refuse("schema error: invalid atom".into()),
    }
}

fn walk_list(list: &ListShape, value: &Value, at: At<'_>, repeated: bool, errors: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (i, item) in items(Some(value)).unwrap_or_default().iter().enumerate() {
        let element = if list.atomic {
            Element::Index(i64::try_from(i).unwrap_or(i64::MAX))
        } else {
            match list.element(item) {
                Ok(element) => element,
                Err(why) => {
                    errors.push(format!("{at}: element {i}: {why}"));
                    return;
                }
            }
        };
        if !repeated && !seen.insert(element.clone()) {
            errors.push(format!("{at}: duplicate entries for key {element}"));
        }
        walk(&list.items, item, At::Item(&at, &element), repeated, errors);
    }
}

fn misfit(scalar: Scalar, value: &Value) -> Option<&'static str> {
    let (fits, expected) = match scalar {
        Scalar::Numeric => (value.is_number(), "numeric (int or float)"),
        Scalar::String => (value.is_string(), "string"),
        Scalar::Boolean => (value.is_boolean(), "boolean"),
        Scalar::Untyped => (!value.is_array() && !value.is_object(), "any scalar"),
    };
    (!fits && !value.is_null()).then_some(expected)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}
