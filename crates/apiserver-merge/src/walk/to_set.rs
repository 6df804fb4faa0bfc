//! The set of fields of an object: leaves, items of lists, entries of maps, and empty values.

use super::{Part, items};
use crate::fields::{Element, FieldSet};
use crate::shape::{ListShape, Type};
use serde_json::Value;
use std::collections::BTreeSet;

pub(crate) fn field_set(ty: &Type, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    walk(ty, value, &mut Vec::new(), &mut set);
    set
}

fn walk(ty: &Type, value: &Value, path: &mut Vec<Element>, set: &mut FieldSet) {
    match ty.atom().part_for(Some(value)) {
        Part::Scalar(_) => set.insert(path),
        Part::List(list) if list.atomic => set.insert(path),
        Part::List(list) => walk_list(list, value, path, set),
        Part::Map(map) if map.atomic => set.insert(path),
        Part::Map(map) => {
            for (name, field) in value.as_object().into_iter().flatten() {
                path.push(Element::field(name));
                if let Some(ty) = map.field(name) {
                    walk(ty, field, path, set);
                }
                let empty = field.is_null() || field.as_object().is_some_and(serde_json::Map::is_empty);
                if empty || !map.fields.contains_key(name) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Part::Nothing => {}
    }
}

fn walk_list(list: &ListShape, value: &Value, path: &mut Vec<Element>, set: &mut FieldSet) {
    let items = items(Some(value)).unwrap_or_default();
    let elements: Vec<Option<Element>> = items.iter().map(|item| list.element(item).ok()).collect();
    let (mut seen, mut repeated) = (BTreeSet::new(), BTreeSet::new());
    for element in elements.iter().flatten() {
        if !seen.insert(element) {
            repeated.insert(element);
        }
    }
    for (item, element) in items.iter().zip(&elements) {
        let Some(element) = element else { continue };
        path.push(element.clone());
        // Of items that are there more than once it cannot be told whose fields are whose.
        if !repeated.contains(element) {
            walk(&list.items, item, path, set);
        }
        set.insert(path);
        path.pop();
    }
}
