//! Strategic merge patch for the built-in kinds: a merge patch that uses upstream's schema for lists that are maps by
//! key. Directives: `$patch: replace|delete`, `$deleteFromPrimitiveList`, `$retainKeys` and `$setElementOrder`.

use std::collections::{HashMap, HashSet, hash_map::Entry};

use serde_json::{Map, Value};

use crate::status::{ApiError, Result};

/// Before the name of a list: the order that its elements are to have.
const ORDER: &str = "$setElementOrder/";

/// Applies a patch in place.
pub(crate) fn patch(schema: &Value, target: &mut Value, patch: &Value) -> Result<()> {
    if let (Value::Object(target), Value::Object(patch)) = (target, patch) {
        merge_map(schema, target, patch, true)?;
    }
    Ok(())
}

/// ObjectMeta has a shape of its own: the schemas leave it out.
fn property<'a>(schema: &'a Value, field: &str, root: bool) -> &'a Value {
    static METADATA: std::sync::OnceLock<Value> = std::sync::OnceLock::new();
    if root && field == "metadata" {
        return METADATA.get_or_init(|| {
            serde_json::json!({"type": "object", "properties": {
                "ownerReferences": {"type": "array", "x-kubernetes-patch-merge-key": "uid", "x-kubernetes-patch-strategy": "merge"},
                "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
            }})
        });
    }
    let named = schema.get("properties").and_then(|properties| properties.get(field));
    named.or_else(|| schema.get("additionalProperties")).unwrap_or(&Value::Null)
}

fn merge_map(
    schema: &Value,
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    root: bool,
) -> Result<()> {
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *target = patch
                .iter()
                .filter(|(key, _)| *key != "$patch")
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            return Ok(());
        }
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => return Err(ApiError::bad_request(format!("unknown patch type found: {other}"))),
    }
    if let Some(kept) = patch.get("$retainKeys").and_then(Value::as_array) {
        let kept: HashSet<&str> = kept.iter().filter_map(Value::as_str).collect();
        target.retain(|key, _| kept.contains(key.as_str()));
    }
    let mut removes = false;
    for (key, value) in patch {
        if let Some(field) = key.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(Value::Array(items)), Value::Array(gone)) = (target.get_mut(field), value) {
                let gone: HashSet<&Value> = gone.iter().collect();
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if let Some(field) = key.strip_prefix(ORDER) {
            // A list that is patched is put into this order there.
            let schema = property(schema, field, root);
            if let (Some(Value::Array(items)), Value::Array(order), None) =
                (target.get_mut(field), value, patch.get(field))
                && is_merged(schema)
            {
                merge_list(schema, items, &[], order)?;
            }
            continue;
        }
        if key.starts_with('$') {
            continue;
        }
        let order = patch.get(&format!("{ORDER}{key}")).and_then(Value::as_array);
        let schema = property(schema, key, root);
        match (target.get_mut(key), value) {
            (existing, Value::Null) => removes |= existing.is_some(),
            (Some(Value::Object(inner)), Value::Object(patch)) => merge_map(schema, inner, patch, false)?,
            (Some(Value::Array(items)), Value::Array(patch)) if is_merged(schema) => {
                merge_list(schema, items, patch, order.unwrap_or(patch))?;
            }
            (_, value) => drop(target.insert(key.clone(), without_directives(value))),
        }
    }
    // All at once: each removal for itself moves every field behind it.
    if removes {
        target.retain(|key, _| key.starts_with('$') || patch.get(key) != Some(&Value::Null));
    }
    Ok(())
}

fn is_merged(schema: &Value) -> bool {
    let strategy = schema.get("x-kubernetes-patch-strategy").and_then(Value::as_str).unwrap_or_default();
    strategy.split(',').any(|word| word == "merge")
}

/// What makes an item of a list the same as another one: its merge key, or the whole item if the list has none.
fn identity<'a>(key: Option<&str>, item: &'a Value) -> Option<&'a Value> {
    key.map_or(Some(item), |key| item.get(key))
}

/// Where each item of a list stands, by its identity. A table, because clients choose how long lists are.
fn places<'a>(key: Option<&str>, items: &'a [Value]) -> HashMap<&'a Value, usize> {
    let mut places = HashMap::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        if let Some(identity) = identity(key, item) {
            places.entry(identity).or_insert(place);
        }
    }
    places
}

/// Merges two lists; what the patch or its order names comes in that order.
fn merge_list(schema: &Value, items: &mut Vec<Value>, patch: &[Value], order: &[Value]) -> Result<()> {
    let key = schema.get("x-kubernetes-patch-merge-key").and_then(Value::as_str);
    let before: HashMap<Value, usize> =
        places(key, items).into_iter().map(|(identity, place)| (identity.clone(), place)).collect();
    merge_items(schema, key, items, patch)?;
    let order = places(key, order);
    let place_in_order = |item: &Value| order.get(identity(key, item)?).copied();
    let place_before = |item: &Value| before.get(identity(key, item)?).copied();
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        items.drain(..).partition(|item| place_in_order(item).is_some());
    named.sort_by_key(place_in_order);
    // Those that the order does not name stand before the first one that they stood before until now.
    let mut others = others.into_iter().peekable();
    for item in named {
        let now = place_before(&item);
        while let Some(other) =
            others.next_if(|other| place_before(other).is_some_and(|then| Some(then) < now))
        {
            items.push(other);
        }
        items.push(item);
    }
    items.extend(others);
    Ok(())
}

fn merge_items(schema: &Value, key: Option<&str>, items: &mut Vec<Value>, patch: &[Value]) -> Result<()> {
    let item_schema = schema.get("items").unwrap_or(&Value::Null);
    let Some(key) = key else {
        let mut known: HashSet<&Value> = items.iter().collect();
        let added: Vec<Value> =
            patch.iter().filter(|item| !item.is_null() && known.insert(item)).cloned().collect();
        items.extend(added);
        return Ok(());
    };
    let directive = |item: &Value| item.get("$patch").and_then(Value::as_str).map(str::to_owned);
    if patch.iter().any(|item| item.get(key).is_none() && directive(item).as_deref() == Some("replace")) {
        *items = patch.iter().filter(|item| directive(item).is_none()).cloned().collect();
        return Ok(());
    }
    if let Some(item) = patch.iter().find(|item| item.get(key).is_none()) {
        let message = format!("map: {item} does not contain declared merge key: {key}");
        return Err(ApiError::bad_request(message));
    }
    let (deleted, merged): (Vec<&Value>, Vec<&Value>) =
        patch.iter().partition(|item| directive(item).as_deref() == Some("delete"));
    if !deleted.is_empty() {
        let deleted: HashSet<&Value> = deleted.into_iter().filter_map(|item| item.get(key)).collect();
        items.retain(|item| item.get(key).is_none_or(|identity| !deleted.contains(identity)));
    }
    let mut places: HashMap<Value, usize> =
        places(Some(key), items).into_iter().map(|(identity, place)| (identity.clone(), place)).collect();
    for item in merged {
        match places.entry(item[key].clone()) {
            Entry::Occupied(place) => {
                if let (Value::Object(target), Value::Object(patch)) = (&mut items[*place.get()], item) {
                    merge_map(item_schema, target, patch, false)?;
                }
            }
            Entry::Vacant(place) => {
                place.insert(items.len());
                items.push(without_directives(item));
            }
        }
    }
    Ok(())
}

/// What is added as a whole: its nulls say "not there", its directives nothing.
fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, value)| !key.starts_with('$') && !value.is_null())
            .map(|(key, value)| (key.clone(), without_directives(value)))
            .collect(),
        Value::Array(items) => items
            .iter()
            .filter(|item| item.get("$patch").is_none_or(|directive| directive != "delete"))
            .filter(|item| **item != serde_json::json!({"$patch": "replace"}))
            .map(without_directives)
            .collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_by_key() {
        let schema = json!({"properties": {"ports": {
            "x-kubernetes-patch-merge-key": "port", "x-kubernetes-patch-strategy": "merge",
            "items": {"properties": {"name": {}}},
        }}});
        let mut target = json!({"ports": [{"port": 1, "name": "a"}, {"port": 2}], "x": 1, "list": [1]});
        let change = json!({
            "ports": [{"port": 1, "name": null, "p": "T"}, {"port": 2, "$patch": "delete"}, {"port": 3}],
            "$setElementOrder/ports": [{"port": 1}], "x": null, "list": [2],
            "metadata": {"finalizers": ["b"], "$deleteFromPrimitiveList/finalizers": ["a"]},
        });
        patch(&schema, &mut target, &change).unwrap();
        assert_eq!(target["ports"], json!([{"port": 1, "p": "T"}, {"port": 3}]));
        assert_eq!((target.get("x"), &target["list"]), (None, &json!([2])));
        let mut object = json!({"metadata": {"finalizers": ["a", "c"]}});
        patch(&Value::Null, &mut object, &change).unwrap();
        assert_eq!(object["metadata"]["finalizers"], json!(["b", "c"]));
    }

    #[test]
    fn elements_stand_where_the_patch_puts_them() {
        let schema = json!({"properties": {"l": {
            "x-kubernetes-patch-merge-key": "k", "x-kubernetes-patch-strategy": "merge",
        }}});
        let names = |names: &str| names.chars().map(|name| json!({"k": name.to_string()})).collect::<Value>();
        let cases = [
            (json!({"l": names("ac")}), "acb"),
            (json!({"l": names("c")}), "cab"),
            (json!({"$setElementOrder/l": names("ba")}), "ba"),
            (json!({"l": names("x"), "$setElementOrder/l": names("bxa")}), "bxa"),
            (json!({"l": names("x"), "$setElementOrder/l": names("xb")}), "xab"),
        ];
        for (change, expected) in cases {
            let mut target = json!({"l": names("ab")});
            patch(&schema, &mut target, &change).unwrap();
            assert_eq!(target["l"], names(expected), "{change}");
        }
    }

    #[test]
    fn replace_and_missing_keys() {
        let mut target = json!({});
        patch(&Value::Null, &mut target, &json!({"l": [{"$patch": "replace"}, {"name": "z"}]})).unwrap();
        assert_eq!(target, json!({"l": [{"name": "z"}]}));
        let mut target = json!({"data": {"a": "1"}});
        patch(&Value::Null, &mut target, &json!({"data": {"$patch": "replace", "b": "2"}})).unwrap();
        assert_eq!(target, json!({"data": {"b": "2"}}));
        let mut owned = json!({"metadata": {"ownerReferences": [{"uid": "u"}]}});
        assert!(
            patch(&Value::Null, &mut owned, &json!({"metadata": {"ownerReferences": [{"name": "x"}]}}))
                .is_err()
        );
    }
}
