//! Uniqueness in lists: a set contains no item twice, and a map list no two items with the same keys.

use crate::error::FieldError;
use crate::gotext;
use crate::node::{ListType, Node};
use crate::path::{child, index, key};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Every item that repeats an earlier one, once for each value repeated.
pub(crate) fn check(node: &Node, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    value(node, object, "", &mut errors);
    errors
}

fn value(node: &Node, value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if let Some(schema) = node.additional_schema() {
                    self::value(schema, field, &key(at, name), errors);
                }
                if let Some(schema) = node.properties.get(name) {
                    self::value(schema, field, &child(at, name), errors);
                }
            }
        }
        Value::Array(items) => {
            match node.list_type {
                ListType::Atomic => {}
                ListType::Set => {
                    let repeated = repeated(items.iter());
                    errors.extend(
                        repeated.into_iter().map(|i| FieldError::duplicate(&index(at, i), items[i].clone())),
                    );
                }
                ListType::Map => map(node, items, at, errors),
            }
            if let Some(schema) = &node.items {
                for (i, item) in items.iter().enumerate() {
                    self::value(schema, item, &index(at, i), errors);
                }
            }
        }
        _ => {}
    }
}

fn map(node: &Node, items: &[Value], at: &str, errors: &mut Vec<FieldError>) {
    if let Some((i, item)) = items.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null()) {
        let why = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(&index(at, i), item.clone(), why));
        return;
    }
    let keys: Vec<Value> = items.iter().map(|item| Value::Object(keys_of(node, item))).collect();
    errors.extend(
        repeated(keys.iter()).into_iter().map(|i| FieldError::duplicate(&index(at, i), keys[i].clone())),
    );
}

fn keys_of(node: &Node, item: &Value) -> Map<String, Value> {
    let found = node.list_map_keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    found.collect()
}

/// The index of the second appearance of everything that appears more than once.
fn repeated<'a>(items: impl Iterator<Item = &'a Value>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut repeated = Vec::new();
    for (i, item) in items.enumerate() {
        let times = seen.entry(identity(item)).or_default();
        *times += 1;
        if *times == 2 {
            repeated.push(i);
        }
    }
    repeated
}

/// Equal for equal values only; a float is never an integer.
fn identity(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => format!("float {number}"),
        value => gotext::json(value),
    }
}
