//! The JSON merge patch that leads from one object to another. Pure.

use serde_json::{Map, Value};

/// The merge patch from `before` to `after`, or `None` if they are equal. A list is replaced as a whole.
pub fn difference(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => object_difference(before, after),
        _ if before == after => None,
        _ => Some(after.clone()),
    }
}

fn object_difference(before: &Map<String, Value>, after: &Map<String, Value>) -> Option<Value> {
    let mut patch = Map::new();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, after) in after {
        let change = match before.get(key) {
            Some(before) => difference(before, after),
            None => Some(after.clone()),
        };
        if let Some(change) = change {
            patch.insert(key.clone(), change);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// RFC 7386.
    fn apply(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        let Value::Object(target) = target else { unreachable!("made an object above") };
        for (key, value) in patch {
            if value.is_null() {
                target.remove(key);
            } else {
                apply(target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
    }

    #[test]
    fn only_what_differs_is_sent() {
        for (before, after, patch) in [
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({"a": 1}), json!({"a": 2}), Some(json!({"a": 2}))),
            (json!({"a": 1, "b": 2}), json!({"b": 2}), Some(json!({"a": null}))),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1, "c": 3}}), Some(json!({"a": {"c": 3}}))),
            (json!({"a": [1, 2]}), json!({"a": [1]}), Some(json!({"a": [1]}))),
            (json!({}), json!({"a": {"b": 1}}), Some(json!({"a": {"b": 1}}))),
        ] {
            assert_eq!(difference(&before, &after), patch, "{before} -> {after}");
        }
    }

    fn no_nulls() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), any::<i64>().prop_map(Value::from)];
        let tree = leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        });
        prop::collection::btree_map("[a-d]", tree, 0..4)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn the_patch_leads_from_one_to_the_other(before in no_nulls(), after in no_nulls()) {
            let mut reached = before.clone();
            if let Some(patch) = difference(&before, &after) {
                apply(&mut reached, &patch);
            }
            prop_assert_eq!(reached, after);
        }
    }
}
