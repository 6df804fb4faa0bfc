//! Removes fields from an object. A map or list that becomes empty is set to null.

use super::Part;
use crate::fields::{Element, FieldSet};
use crate::shape::Type;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

pub(crate) fn remove(ty: &Type, value: &Value, fields: &FieldSet) -> Value {
    match (ty.atom().part_for(Some(value)), value) {
        (Part::Map(map), Value::Object(entries)) if !map.atomic => {
            let mut left = Map::new();
            for (name, entry) in entries {
                let element = Element::field(name);
                if fields.members.contains(&element) {
                    continue;
                }
                let entry = match (fields.below(&element), map.field(name)) {
                    (Some(below), Some(ty)) => remove(ty, entry, below),
                    _ => entry.clone(),
                };
                left.insert(name.clone(), entry);
            }
            if left.is_empty() { Value::Null } else { Value::Object(left) }
        }
        (Part::List(list), Value::Array(items)) if !list.atomic => {
            let mut left = Vec::new();
            for item in items {
                let Ok(element) = list.element(item) else { continue };
                if fields.members.contains(&element) {
                    continue;
                }
                left.push(match fields.below(&element) {
                    Some(below) => remove(&list.items, item, below),
                    None => item.clone(),
                });
            }
            if left.is_empty() { Value::Null } else { Value::Array(left) }
        }
        (Part::Map(_) | Part::List(_) | Part::Nothing, _) => Value::Null,
        (Part::Scalar(_), scalar) => scalar.clone(),
    }
}

/// What [`remove`] made null of something that was there before is empty if someone owns it, and goes otherwise.
/// Upstream leaves the null, which a schema then refuses.
pub(crate) fn drop_emptied(value: &mut Value, before: &Value, owned: Option<&FieldSet>) {
    match (value, before) {
        (Value::Object(fields), Value::Object(before)) => fields.retain(|name, field| {
            let Some(before) = before.get(name) else { return true };
            let element = Element::field(name);
            drop_emptied(field, before, owned.and_then(|owned| owned.children.get(&element)));
            if field.is_null() && !before.is_null() {
                *field = if before.is_array() { Value::Array(Vec::new()) } else { Value::Object(Map::new()) };
                return owned.is_some_and(|owned| owned.members.contains(&element));
            }
            true
        }),
        // Items keep their order but not their places, so they are only looked at where nothing was taken away.
        (Value::Array(items), Value::Array(before)) if items.len() == before.len() => {
            let names = owned.map(key_names).unwrap_or_default();
            for (item, before) in items.iter_mut().zip(before) {
                let below = owned.and_then(|owned| {
                    names.iter().find_map(|names| owned.children.get(&by_keys(names, before)?))
                });
                drop_emptied(item, before, below);
            }
        }
        _ => {}
    }
}

/// The names of the keys of a list's items. All items of a list have the same, unless its schema has changed.
fn key_names<'a>(owned: &'a FieldSet) -> BTreeSet<Vec<&'a str>> {
    let names = |element: &'a Element| match element {
        Element::Key(keys) => Some(keys.iter().map(|(name, _)| name.as_str()).collect()),
        _ => None,
    };
    owned.children.keys().filter_map(names).collect()
}

fn by_keys(names: &[&str], item: &Value) -> Option<Element> {
    let key = |name: &&str| Some(((*name).to_owned(), item.get(*name)?.clone()));
    Some(Element::Key(names.iter().map(key).collect::<Option<_>>()?))
}
