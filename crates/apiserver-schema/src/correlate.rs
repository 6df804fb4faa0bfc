//! Correlates new values with old values: fields by name, items of a map list by their keys. Other values do not
//! correlate. Ratcheting and transition rules use this module.

use crate::node::{ListType, Node, Type};
use serde_json::Value;
use std::collections::HashMap;

/// A value, the value it was before, and the schema of both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Correlation<'a> {
    pub(crate) new: &'a Value,
    old: &'a Value,
    node: &'a Node,
}

impl<'a> Correlation<'a> {
    pub(crate) fn new(new: &'a Value, old: &'a Value, node: &'a Node) -> Correlation<'a> {
        Correlation { new, old, node }
    }

    /// The field `name`, if it is in both values and in the schema.
    pub(crate) fn key(&self, name: &str) -> Option<Correlation<'a>> {
        let old = self.old.as_object()?.get(name)?;
        let new = self.new.as_object()?.get(name)?;
        Some(Correlation { new, old, node: self.node.field(name)? })
    }

    /// The items of a list by their keys.
    pub(crate) fn items(&self) -> CorrelatedItems<'a> {
        let old = self.old.as_array().map(Vec::as_slice).unwrap_or_default();
        CorrelatedItems { list: *self, old: OldItems::new(self.node, old) }
    }

    /// Whether nothing changed. What has no schema counts as changed.
    pub(crate) fn unchanged(&self) -> bool {
        match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                new.len() == old.len()
                    && if self.node.list_type == ListType::Map {
                        let items = self.items();
                        (0..new.len()).all(|i| items.get(i).is_some_and(|item| item.unchanged()))
                    } else {
                        new == old
                    }
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new.keys().all(|name| self.key(name).is_some_and(|field| field.unchanged()))
            }
            (new, old) => new == old,
        }
    }
}

/// A list, and the list it was before.
#[derive(Debug)]
pub(crate) struct CorrelatedItems<'a> {
    list: Correlation<'a>,
    old: OldItems<'a>,
}

impl<'a> CorrelatedItems<'a> {
    /// The item at `index` of the new list, if the old list had one of the same keys.
    pub(crate) fn get(&self, index: usize) -> Option<Correlation<'a>> {
        let new = self.list.new.as_array()?.get(index)?;
        Some(Correlation { new, old: self.old.of(new)?, node: self.list.node.items.as_deref()? })
    }
}

/// The items that a list had before, by their keys. A table, because clients choose how long lists are.
#[derive(Debug)]
pub(crate) struct OldItems<'a> {
    list: &'a Node,
    by_keys: HashMap<Vec<&'a Value>, &'a Value>,
}

impl<'a> OldItems<'a> {
    /// Empty, unless `list` is the schema of a list that is a map.
    pub(crate) fn new(list: &'a Node, old: &'a [Value]) -> Self {
        let is_map =
            list.ty == Some(Type::Array) && list.list_type == ListType::Map && !list.list_map_keys.is_empty();
        let mut by_keys = HashMap::new();
        for item in old.iter().filter(|_| is_map) {
            if let Some(keys) = keys(list, item) {
                by_keys.entry(keys).or_insert(item);
            }
        }
        Self { list, by_keys }
    }

    /// The first of them with the keys of `item`.
    pub(crate) fn of(&self, item: &Value) -> Option<&'a Value> {
        self.by_keys.get(&keys(self.list, item)?).copied()
    }
}

/// The values of the keys of an item; `None` if one is absent or no scalar.
fn keys<'a>(list: &Node, item: &'a Value) -> Option<Vec<&'a Value>> {
    let scalar = |value: &&Value| matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_));
    list.list_map_keys.iter().map(|key| item.get(key).filter(scalar)).collect()
}
