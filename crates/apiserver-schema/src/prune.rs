//! Removes unknown fields. `apiVersion`, `kind` and `metadata` of the object and of embedded resources stay; the API
//! defines the fields of `metadata`, not the schema.

use crate::node::{Additional, Node};
use crate::path::{child, index};
use serde_json::{Map, Value};

/// Drops unknown fields and returns their paths, sorted.
pub(crate) fn prune(root: &Node, object: &mut Value) -> Vec<String> {
    let mut dropped = Vec::new();
    if let Value::Object(fields) = object {
        if root.preserve_unknown {
            skip_fields(fields, root, true, "", &mut dropped);
        } else {
            fields_of(fields, root, true, "", &mut dropped);
        }
        metadata(fields, "", &mut dropped);
    }
    dropped.sort();
    dropped
}

/// Whether there is nothing to drop from a value of this schema.
pub(crate) fn is_pruned(node: &Node, value: &Value) -> bool {
    let mut dropped = Vec::new();
    self::value(&mut value.clone(), Some(node), "", &mut dropped);
    dropped.is_empty()
}

fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

fn value(value: &mut Value, node: Option<&Node>, at: &str, dropped: &mut Vec<String>) {
    if let Some(node) = node.filter(|node| node.preserve_unknown) {
        skip(value, node, at, dropped);
        return;
    }
    match (value, node) {
        (Value::Object(fields), None) => {
            dropped.extend(fields.keys().map(|name| child(at, name)));
            fields.clear();
        }
        (Value::Object(fields), Some(node)) => {
            fields_of(fields, node, node.embedded, at, dropped);
            if node.embedded {
                metadata(fields, at, dropped);
            }
        }
        (Value::Array(items), node) => {
            for (i, item) in items.iter_mut().enumerate() {
                self::value(item, node.and_then(|node| node.items.as_deref()), &index(at, i), dropped);
            }
        }
        _ => {}
    }
}

fn fields_of(
    fields: &mut Map<String, Value>,
    node: &Node,
    resource: bool,
    at: &str,
    dropped: &mut Vec<String>,
) {
    fields.retain(|name, field| {
        if resource && is_meta(name) {
            return true;
        }
        let inside = child(at, name);
        if let Some(property) = node.properties.get(name) {
            value(field, Some(property), &inside, dropped);
        } else {
            match &node.additional {
                Some(Additional::Schema(schema)) => value(field, Some(schema), &inside, dropped),
                Some(Additional::Allowed(_)) => value(field, None, &inside, dropped),
                None => {
                    dropped.push(inside);
                    return false;
                }
            }
        }
        true
    });
}

/// Below a schema that preserves unknown fields, only what it does specify is pruned again.
fn skip(value: &mut Value, node: &Node, at: &str, dropped: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            skip_fields(fields, node, node.embedded, at, dropped);
            if node.embedded {
                metadata(fields, at, dropped);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter_mut().enumerate() {
                if let Some(node) = node.items.as_deref() {
                    skip(item, node, &index(at, i), dropped);
                }
            }
        }
        _ => {}
    }
}

fn skip_fields(
    fields: &mut Map<String, Value>,
    node: &Node,
    resource: bool,
    at: &str,
    dropped: &mut Vec<String>,
) {
    for (name, field) in fields.iter_mut() {
        if resource && is_meta(name) {
            continue;
        }
        let inside = child(at, name);
        if let Some(property) = node.properties.get(name) {
            value(field, Some(property), &inside, dropped);
        } else if let Some(additional) = &node.additional {
            let schema = if let Additional::Schema(schema) = additional { Some(&**schema) } else { None };
            value(field, schema, &inside, dropped);
        }
    }
}

/// The fields of `ObjectMeta`.
pub const OBJECT_META: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];
const OWNER_REFERENCE: [&str; 6] = ["apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"];
const MANAGED_FIELDS: [&str; 7] =
    ["apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "subresource", "time"];

/// Drops what `ObjectMeta` does not know from the `metadata` of a resource.
fn metadata(resource: &mut Map<String, Value>, at: &str, dropped: &mut Vec<String>) {
    let at = child(at, "metadata");
    let Some(Value::Object(meta)) = resource.get_mut("metadata") else { return };
    only(meta, &OBJECT_META, &at, dropped);
    for (name, known) in [("ownerReferences", &OWNER_REFERENCE[..]), ("managedFields", &MANAGED_FIELDS[..])] {
        let Some(Value::Array(entries)) = meta.get_mut(name) else { continue };
        for (i, entry) in entries.iter_mut().enumerate() {
            if let Value::Object(entry) = entry {
                only(entry, known, &index(&child(&at, name), i), dropped);
            }
        }
    }
}

fn only(fields: &mut Map<String, Value>, known: &[&str], at: &str, dropped: &mut Vec<String>) {
    fields.retain(|name, _| {
        let keep = known.contains(&name.as_str());
        if !keep {
            dropped.push(child(at, name));
        }
        keep
    });
}
