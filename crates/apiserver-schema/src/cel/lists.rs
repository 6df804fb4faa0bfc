//! Lists with `x-kubernetes-list-type` in rules, as upstream: `+` of a set is a union, `+` of a map list merges entries by
//! key, and `==` of both ignores the order. The operand on the left decides. The evaluator has plain lists only, so
//! [`super::rewrite`] replaces operators by calls of these functions where the schema has the list type.

use super::budget;
use super::names::escape;
use crate::raw::Raw;
use kube_cel::cel::objects::Key;
use kube_cel::cel::{Context, ExecutionError, Value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const UNION: &str = "#union";
const MERGE: &str = "#merge";
const SAME_SET: &str = "#sameSet";
const SAME_ENTRIES: &str = "#sameEntries";

/// How the items of a list belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    Atomic,
    Set,
    /// With the keys, as a rule names them.
    Map(Vec<String>),
}

impl ListKind {
    /// That of a schema, if it is a list.
    pub(super) fn of(schema: Raw<'_>) -> Option<ListKind> {
        if schema.ty() != "array" {
            return None;
        }
        Some(match schema.text("x-kubernetes-list-type") {
            "set" => ListKind::Set,
            "map" => {
                let keys = schema.texts("x-kubernetes-list-map-keys");
                ListKind::Map(keys.into_iter().map(|key| escape(&key).unwrap_or(key)).collect())
            }
            _ => ListKind::Atomic,
        })
    }

    /// The function for `+`; none for a plain list.
    pub(super) fn sum(&self) -> Option<&'static str> {
        match self {
            ListKind::Atomic => None,
            ListKind::Set => Some(UNION),
            ListKind::Map(_) => Some(MERGE),
        }
    }

    /// The function for `==`; none for a plain list.
    pub(super) fn equality(&self) -> Option<&'static str> {
        match self {
            ListKind::Atomic => None,
            ListKind::Set => Some(SAME_SET),
            ListKind::Map(_) => Some(SAME_ENTRIES),
        }
    }

    /// The keys of a map list.
    pub(super) fn keys(&self) -> &[String] {
        match self {
            ListKind::Map(keys) => keys,
            ListKind::Atomic | ListKind::Set => &[],
        }
    }
}

type List = Arc<Vec<Value>>;

// The evaluator hands over values, not references.
#[allow(clippy::needless_pass_by_value)]
pub(super) fn register(context: &mut Context<'_>) {
    context.add_function(UNION, |left: List, right: List| {
        compared(&left, &right).map(|()| union(&left, &right))
    });
    context.add_function(MERGE, |left: List, right: List, keys: List| {
        compared(&left, &right).map(|()| merge(&left, &right, &keys))
    });
    context.add_function(SAME_SET, |left: List, right: List| {
        compared(&left, &right).map(|()| same_set(&left, &right))
    });
    context.add_function(SAME_ENTRIES, |left: List, right: List, keys: List| {
        compared(&left, &right).map(|()| same_entries(&left, &right, &keys))
    });
}

/// Charges for looking at every item once.
fn compared(left: &[Value], right: &[Value]) -> Result<(), ExecutionError> {
    budget::spend((left.len().min(right.len()) / 10) as u64)
}

fn union(left: &[Value], right: &[Value]) -> Value {
    let mut items = left.to_vec();
    let mut seen: HashSet<String> = left.iter().map(identity).collect();
    items.extend(right.iter().filter(|item| seen.insert(identity(item))).cloned());
    Value::List(Arc::new(items))
}

fn same_set(left: &[Value], right: &[Value]) -> bool {
    let seen: HashSet<String> = left.iter().map(identity).collect();
    left.len() == right.len() && right.iter().all(|item| seen.contains(&identity(item)))
}

fn merge(left: &[Value], right: &[Value], keys: &[Value]) -> Value {
    let mut items = left.to_vec();
    let places: HashMap<String, usize> =
        left.iter().enumerate().map(|(place, item)| (entry_key(item, keys), place)).collect();
    for item in right {
        match places.get(&entry_key(item, keys)) {
            Some(place) => items[*place] = item.clone(),
            None => items.push(item.clone()),
        }
    }
    Value::List(Arc::new(items))
}

fn same_entries(left: &[Value], right: &[Value], keys: &[Value]) -> bool {
    let entries: HashMap<String, &Value> = left.iter().map(|item| (entry_key(item, keys), item)).collect();
    let same = |item: &Value| entries.get(&entry_key(item, keys)).is_some_and(|entry| *entry == item);
    left.len() == right.len() && right.iter().all(same)
}

/// A text that two equal values share, and no others.
fn identity(value: &Value) -> String {
    match value {
        Value::List(items) => format!("[{}]", items.iter().map(identity).collect::<Vec<_>>().join(",")),
        // Two maps of the same entries may yield them in different orders.
        Value::Map(fields) => {
            let entry = |(key, value): (&Key, &Value)| format!("{key:?}:{}", identity(value));
            let mut entries: Vec<String> = fields.map.iter().map(entry).collect();
            entries.sort_unstable();
            format!("{{{}}}", entries.join(","))
        }
        scalar => format!("{scalar:?}"),
    }
}

fn entry_key(item: &Value, keys: &[Value]) -> String {
    let Value::Map(fields) = item else { return identity(item) };
    let value = |key: &Value| match key {
        Value::String(name) => fields.map.get(&Key::String(name.clone())),
        _ => None,
    };
    keys.iter().map(|key| value(key).map(identity).unwrap_or_default()).collect::<Vec<_>>().join(",")
}
