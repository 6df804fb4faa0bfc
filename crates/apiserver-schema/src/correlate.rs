//! Which old value a new value came from. Fields correlate by name, items of a list by their keys if the list is
//! a map, and nothing else does. Ratcheting and transition rules both ask here.

use crate::node::{ListType, Node, Type};
use serde_json::Value;

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

    /// The item at `index` of the new list, if the old list had one of the same keys.
    pub(crate) fn index(&self, index: usize) -> Option<Correlation<'a>> {
        let new = self.new.as_array()?.get(index)?;
        let old = same_key(self.node, self.old.as_array()?, new)?;
        Some(Correlation { new, old, node: self.node.items.as_deref()? })
    }

    /// Whether nothing changed. What has no schema counts as changed.
    pub(crate) fn unchanged(&self) -> bool {
        match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                new.len() == old.len()
                    && if self.node.list_type == ListType::Map {
                        (0..new.len()).all(|i| self.index(i).is_some_and(|item| item.unchanged()))
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

/// The first item of `old` with the keys of `item`, if `list` is the schema of a list that is a map.
pub(crate) fn same_key<'a>(list: &Node, old: &'a [Value], item: &Value) -> Option<&'a Value> {
    let is_map =
        list.ty == Some(Type::Array) && list.list_type == ListType::Map && !list.list_map_keys.is_empty();
    let wanted = is_map.then(|| keys(list, item))??;
    old.iter().find(|old| keys(list, old).as_ref() == Some(&wanted))
}

/// The values of the keys of an item; `None` if one is absent or no scalar.
fn keys<'a>(list: &Node, item: &'a Value) -> Option<Vec<&'a Value>> {
    let scalar = |value: &&Value| matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_));
    list.list_map_keys.iter().map(|key| item.get(key).filter(scalar)).collect()
}
