//! Merges an applied configuration into an object: applied values win, other values stay, and list items are in the
//! order of the configuration.

use super::{Part, fields, items};
use crate::fields::Element;
use crate::shape::{ListShape, MapShape, Type};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) fn merge(ty: &Type, live: &Value, applied: &Value) -> Value {
    value(ty, Some(live), Some(applied)).unwrap_or_default()
}

fn value(ty: &Type, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let winner = applied.or(live);
    match ty.atom().part_for(winner) {
        Part::Map(shape) if !shape.atomic && (has_fields(live) || has_fields(applied)) => {
            map(shape, fields(live), fields(applied))
        }
        Part::List(shape) if !shape.atomic && (has_items(live) || has_items(applied)) => {
            list(shape, items(live).unwrap_or_default(), items(applied).unwrap_or_default())
        }
        Part::Nothing => None,
        // A leaf, or nothing on either side, where null and empty must stay what they are.
        _ => winner.cloned(),
    }
}

fn has_fields(value: Option<&Value>) -> bool {
    fields(value).is_some_and(|fields| !fields.is_empty())
}

fn has_items(value: Option<&Value>) -> bool {
    items(value).is_some_and(|items| !items.is_empty())
}

fn map(
    shape: &MapShape,
    live: Option<&Map<String, Value>>,
    applied: Option<&Map<String, Value>>,
) -> Option<Value> {
    let mut out = Map::new();
    let new =
        applied.into_iter().flatten().filter(|(name, _)| !live.is_some_and(|live| live.contains_key(*name)));
    for (name, _) in live.into_iter().flatten().chain(new) {
        let Some(ty) = shape.field(name) else { continue };
        let side = |map: Option<&'_ Map<String, Value>>| map.and_then(|map| map.get(name)).cloned();
        let (live, applied) = (side(live), side(applied));
        if let Some(merged) = value(ty, live.as_ref(), applied.as_ref()) {
            out.insert(name.clone(), merged);
        }
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

/// The items of a list by their elements, and the elements in order. Of items that repeat an element, nothing is
/// merged with what is applied.
fn index<'a>(
    shape: &ListShape,
    list: &'a [Value],
) -> (Vec<(Element, &'a Value)>, BTreeMap<Element, &'a Value>) {
    let found = list.iter().filter_map(|item| Some((shape.element(item).ok()?, item)));
    let order: Vec<_> = found.collect();
    let mut by_element = BTreeMap::new();
    for (element, item) in &order {
        by_element.entry(element.clone()).and_modify(|known| *known = &Value::Null).or_insert(*item);
    }
    (order, by_element)
}

fn list(shape: &ListShape, live: &[Value], applied: &[Value]) -> Option<Value> {
    let (live_order, live_items) = index(shape, live);
    let (applied_order, applied_items) = index(shape, applied);
    // Elements on both sides, in the order of what is applied; the first is where the two meet next.
    let mut shared: VecDeque<&Element> = applied_order
        .iter()
        .map(|(element, _)| element)
        .filter(|element| live_items.contains_key(element))
        .collect();
    let mut out = Vec::with_capacity(live.len().max(applied.len()));
    let mut merged = BTreeSet::new();
    let (mut l, mut a) = (0, 0);
    let both = |element: &Element| {
        value(&shape.items, live_items.get(element).copied(), applied_items.get(element).copied())
    };
    while l < live_order.len() || a < applied_order.len() {
        if let (Some((live, _)), Some((applied, _))) = (live_order.get(l), applied_order.get(a)) {
            if live == applied {
                merged.insert(live);
                out.extend(both(live));
                (l, a) = (l + 1, a + 1);
                shared.pop_front();
                continue;
            }
            if applied_items.contains_key(live) && shared.front().is_some_and(|next| *next != live) {
                // On both sides, but its turn is later.
                l += 1;
                continue;
            }
        }
        if let Some((element, item)) = live_order.get(l) {
            if !applied_items.contains_key(element) {
                out.extend(value(&shape.items, Some(item), None));
                l += 1;
                continue;
            }
            if merged.contains(element) {
                l += 1;
            }
        }
        if let Some((element, _)) = applied_order.get(a) {
            merged.insert(element);
            out.extend(both(element));
            a += 1;
            if shared.front() == Some(&element) {
                shared.pop_front();
            }
        }
    }
    (!out.is_empty()).then_some(Value::Array(out))
}
