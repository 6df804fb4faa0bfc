//! A write that changes nothing must not change the times in `managedFields` either; otherwise every such write would
//! be stored.

use crate::gotext::same;
use serde_json::Value;

/// Copies the times of `old` to `new` if only times would change. It must be called last, on the object as it would be
/// stored. Then `old` and `new` are equal if there is nothing to store.
pub fn keep_unchanged_times(old: &Value, new: &mut Value) {
    let without = |object: &Value| {
        let mut object = object.clone();
        for entry in
            object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut).into_iter().flatten()
        {
            if let Some(entry) = entry.as_object_mut() {
                entry.shift_remove("time");
            }
        }
        object
    };
    if old != new && same(&without(old), &without(new)) {
        let entries = old.pointer("/metadata/managedFields").cloned();
        if let (Some(entries), Some(place)) = (entries, new.pointer_mut("/metadata/managedFields")) {
            *place = entries;
        }
    }
}
