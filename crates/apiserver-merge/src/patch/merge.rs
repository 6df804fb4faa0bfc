//! JSON merge patches: null removes a field.

use super::PatchError;
use serde_json::{Map, Value};

/// Applies a JSON merge patch to an object.
///
/// # Errors
/// If the patch is not an object; the target is unchanged then.
pub fn merge_patch(target: &mut Value, patch: &Value) -> Result<(), PatchError> {
    let Value::Object(patch) = patch else { return Err(PatchError::Malformed("Invalid JSON Patch".into())) };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(target) = target {
        merge_fields(target, patch);
    }
    Ok(())
}

fn merge_fields(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    let mut removes = false;
    for (name, value) in patch {
        match (target.get_mut(name), value) {
            (existing, Value::Null) => removes |= existing.is_some(),
            (Some(Value::Object(fields)), Value::Object(patch)) => merge_fields(fields, patch),
            (Some(whole @ Value::Object(_)), value) => *whole = value.clone(),
            (Some(whole), value) => *whole = without_nulls(value),
            (None, value) => {
                target.insert(name.clone(), without_nulls(value));
            }
        }
    }
    // All at once: each removal for itself moves every field behind it.
    if removes {
        target.retain(|name, _| patch.get(name) != Some(&Value::Null));
    }
}

/// A value that is put where there was none has no nulls in its objects, not even within lists.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, field)| !field.is_null());
            Value::Object(kept.map(|(name, field)| (name.clone(), without_nulls(field))).collect())
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nulls_take_away_and_are_never_left() {
        let mut object = json!({"a": {"b": 1, "c": 2}, "l": [1], "s": "x"});
        let patch = json!({"a": {"b": null, "d": {"e": null}}, "l": [{"x": null}], "s": {"y": null}});
        assert_eq!(merge_patch(&mut object, &patch), Ok(()));
        assert_eq!(object, json!({"a": {"c": 2, "d": {}}, "l": [{}], "s": {}}));
        assert!(merge_patch(&mut object, &json!([1])).is_err());
    }
}
