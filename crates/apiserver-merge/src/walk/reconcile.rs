//! A schema may have changed from granular to atomic after a set was written. The manager then owns the whole value
//! instead of parts of it.

use super::Part;
use crate::fields::{Element, FieldSet};
use crate::shape::Type;

/// The set as it would be had the schema always been what it is.
pub(crate) fn reconcile(ty: &Type, set: FieldSet) -> FieldSet {
    let mut whole = FieldSet::default();
    walk(ty, Some(&set), false, &mut Vec::new(), &mut whole);
    if whole.is_empty() { set } else { set.without_below(&whole).union(whole) }
}

/// `alone` if the field is in the set and nothing below it is.
fn walk(ty: &Type, set: Option<&FieldSet>, alone: bool, path: &mut Vec<Element>, whole: &mut FieldSet) {
    let atom = ty.atom();
    match atom.part(atom.kinds(None)) {
        Part::List(list) if list.atomic => {
            if !alone {
                whole.insert(path);
            }
        }
        Part::Map(map) if map.is_deduced() => {}
        Part::Map(map) if map.atomic => {
            if !alone && set.is_some_and(|set| !set.is_empty()) {
                whole.insert(path);
            }
        }
        Part::List(list) => below(set, |_| Some(&list.items), path, whole),
        Part::Map(map) => {
            let ty = |element: &Element| match element {
                Element::Field(name) => map.field(name),
                _ => map.others.as_ref(),
            };
            below(set, ty, path, whole);
        }
        Part::Scalar(_) | Part::Nothing => {}
    }
}

fn below<'a>(
    set: Option<&FieldSet>,
    ty: impl Fn(&Element) -> Option<&'a Type>,
    path: &mut Vec<Element>,
    whole: &mut FieldSet,
) {
    let Some(set) = set else { return };
    let only_above = set.children.keys().filter(|element| !set.members.contains(element));
    for element in only_above.chain(&set.members) {
        let Some(ty) = ty(element) else { continue };
        let children = set.children.get(element);
        path.push(element.clone());
        walk(ty, children, set.members.contains(element) && children.is_none(), path, whole);
        path.pop();
    }
}
