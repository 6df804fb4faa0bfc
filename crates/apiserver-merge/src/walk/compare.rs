//! The differences between two objects: added, removed and changed fields.

use super::{Part, fields, items};
use crate::fields::{Element, FieldSet};
use crate::gotext::same;
use crate::shape::{ListShape, MapShape, Type};
use serde_json::Value;
use std::collections::BTreeMap;

/// The difference between two objects. No field is in two of the sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) added: FieldSet,
}

impl Comparison {
    /// The same without certain fields and all below them.
    pub(crate) fn without(self, fields: &FieldSet) -> Comparison {
        Comparison {
            removed: self.removed.without_below(fields),
            modified: self.modified.without_below(fields),
            added: self.added.without_below(fields),
        }
    }
}

pub(crate) fn compare(ty: &Type, old: &Value, new: &Value) -> Comparison {
    let mut walk = Walk { path: Vec::new(), out: Comparison::default() };
    walk.value(ty, Some(old), Some(new));
    walk.out
}

struct Walk {
    path: Vec<Element>,
    out: Comparison,
}

impl Walk {
    fn value(&mut self, ty: &Type, old: Option<&Value>, new: Option<&Value>) {
        let atom = ty.atom();
        let (before, after) = (atom.kinds(old), atom.kinds(new));
        let leaf = if new.is_none() {
            self.part(atom.part(before), old, new)
        } else {
            // A value that became another kind of value is compared as both.
            if old.is_some() && before != after {
                self.part(atom.part(before), old, new);
            }
            self.part(atom.part(after), old, new)
        };
        if !leaf {
            match (old, new) {
                (None, _) => self.out.added.insert(&self.path),
                (_, None) => self.out.removed.insert(&self.path),
                _ => {}
            }
        }
    }

    /// Compares as one kind of value; whether that had nothing below it.
    fn part(&mut self, part: Part<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
        match part {
            Part::Scalar(_) => self.leaf(old, new),
            Part::Map(map) => {
                let empty = |value| fields(value).is_none_or(serde_json::Map::is_empty);
                if map.atomic || (empty(old) && empty(new)) {
                    return self.leaf(old, new);
                }
                self.map(map, old, new);
                false
            }
            Part::List(list) => {
                let empty = |value| items(value).is_none_or(<[Value]>::is_empty);
                if list.atomic || (empty(old) && empty(new)) {
                    return self.leaf(old, new);
                }
                self.list(list, items(old).unwrap_or_default(), items(new).unwrap_or_default());
                false
            }
            Part::Nothing => false,
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (old, new) {
            (None, _) => self.out.added.insert(&self.path),
            (_, None) => self.out.removed.insert(&self.path),
            (Some(old), Some(new)) if !same(old, new) => self.out.modified.insert(&self.path),
            _ => {}
        }
        true
    }

    fn map(&mut self, map: &MapShape, old: Option<&Value>, new: Option<&Value>) {
        let (old, new) = (fields(old), fields(new));
        let is_new = |name: &&String| !old.is_some_and(|old| old.contains_key(*name));
        let names = old.into_iter().flat_map(serde_json::Map::keys);
        for name in names.chain(new.into_iter().flat_map(serde_json::Map::keys).filter(is_new)) {
            let Some(ty) = map.field(name) else { continue };
            self.path.push(Element::field(name));
            self.value(ty, old.and_then(|old| old.get(name)), new.and_then(|new| new.get(name)));
            self.path.pop();
        }
    }

    fn list(&mut self, list: &ListShape, old: &[Value], new: &[Value]) {
        let mut all: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in old {
            if let Ok(element) = list.element(item) {
                all.entry(element).or_default().0.push(item);
            }
        }
        for item in new {
            if let Ok(element) = list.element(item) {
                all.entry(element).or_default().1.push(item);
            }
        }
        for (element, (old, new)) in all {
            self.path.push(element);
            self.item(list, &old, &new);
            self.path.pop();
        }
    }

    /// Items of one key. Where a key is there more than once, those items are one leaf.
    fn item(&mut self, list: &ListShape, old: &[&Value], new: &[&Value]) {
        match (old, new) {
            ([] | [_], [] | [_]) => self.value(&list.items, old.first().copied(), new.first().copied()),
            ([_, _, ..], [_, _, ..]) => {
                let equal = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new));
                if !equal {
                    self.out.modified.insert(&self.path);
                }
            }
            ([_, _, ..], _) => {
                if let Some(new) = new.first() {
                    self.value(&list.items, None, Some(new));
                }
                self.out.removed.insert(&self.path);
            }
            (_, _) => {
                if let Some(old) = old.first() {
                    self.value(&list.items, Some(old), None);
                }
                self.out.added.insert(&self.path);
            }
        }
    }
}
