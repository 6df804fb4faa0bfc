//! What is defaulted and what is rejected, as tables for each kind.

mod classes;
mod clusters;
mod defaults;
mod objects;
mod rules;

use capstan_admission::{Facts, Kind, Operation, Rejection, Write, default, validate};
use serde_json::Value;

/// An object after a merge patch.
fn with(mut object: Value, patch: &Value) -> Value {
    merge(&mut object, patch);
    object
}

fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(serde_json::Map::new());
    }
    for (field, patch) in fields {
        match patch {
            Value::Null => _ = object.as_object_mut().expect("an object").shift_remove(field),
            _ => merge(&mut object[field.as_str()], patch),
        }
    }
}

fn write<'a>(kind: Kind, old: Option<&'a Value>, new: &'a Value) -> Write<'a> {
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    Write { kind, operation, old, new: Some(new) }
}

/// The object with its defaults.
fn defaulted(kind: Kind, old: Option<&Value>, new: &Value) -> Value {
    let (changed, _) = default(&write(kind, old, new), &Facts::default()).expect("defaults");
    changed.unwrap_or_else(|| new.clone())
}

/// Errors as `path: kind`.
fn errors(result: Result<Vec<String>, Rejection>) -> Vec<String> {
    match result {
        Ok(_) => Vec::new(),
        Err(Rejection::Invalid(errors)) => {
            errors.iter().map(|error| format!("{}: {}", error.path, error.reason())).collect()
        }
        Err(other) => vec![format!("{other:?}")],
    }
}

fn rejected(kind: Kind, old: Option<&Value>, new: &Value, facts: &Facts) -> Vec<String> {
    errors(validate(&write(kind, old, new), facts))
}
