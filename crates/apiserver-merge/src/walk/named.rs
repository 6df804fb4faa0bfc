//! Sets omit named fields that have members below them. Removal of fields needs those fields as members.

use crate::fields::{Element, FieldSet};
use crate::shape::Type;

/// The set with every named field in that has something below it.
pub(crate) fn with_named(set: &FieldSet, ty: Option<&Type>) -> FieldSet {
    let atom = ty.map(Type::atom);
    let map = atom.and_then(|atom| atom.map.as_ref());
    let list = atom.and_then(|atom| atom.list.as_ref());
    let mut out = FieldSet { members: set.members.clone(), ..FieldSet::default() };
    for (element, below) in &set.children {
        let inside = match element {
            Element::Field(name) => {
                if map.is_some_and(|map| map.fields.contains_key(name)) {
                    out.members.insert(element.clone());
                }
                map.and_then(|map| map.field(name))
            }
            Element::Key(_) => list.map(|list| &list.items),
            Element::Value(_) | Element::Index(_) => None,
        };
        out.children.insert(element.clone(), with_named(below, inside));
    }
    out
}
