//! Sets defaults, and removes nulls from fields that are not nullable and have no default.

use crate::node::Node;
use serde_json::Value;

/// Defaults first, since a null with a default becomes that default; then the nulls that are left.
pub(crate) fn apply(root: &Node, object: &mut Value) {
    fill(object, root);
    drop_nulls(object, Some(root));
}

fn replaces(node: &Node, value: &Value) -> bool {
    value.is_null() && !node.nullable
}

/// Only the defaults.
pub(crate) fn fill(value: &mut Value, node: &Node) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &node.properties {
                let Some(default) = &property.default else { continue };
                if fields.get(name).is_none_or(|value| replaces(property, value)) {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields.iter_mut() {
                if let Some(property) = node.properties.get(name) {
                    fill(value, property);
                } else if let Some(schema) = node.additional_schema() {
                    fill_entry(value, schema);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                if let Some(schema) = &node.items {
                    fill_entry(item, schema);
                }
            }
        }
        _ => {}
    }
}

fn fill_entry(value: &mut Value, node: &Node) {
    if replaces(node, value) {
        *value = node.default.clone().unwrap_or_default();
    }
    fill(value, node);
}

fn drop_nulls(value: &mut Value, node: Option<&Node>) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let node = node.and_then(|node| node.field(name));
            let stray = node.is_some_and(|node| replaces(node, value) && node.default.is_none());
            if !stray {
                drop_nulls(value, node);
            }
            !stray
        }),
        Value::Array(items) => {
            for item in items {
                drop_nulls(item, node.and_then(|node| node.items.as_deref()));
            }
        }
        _ => {}
    }
}
