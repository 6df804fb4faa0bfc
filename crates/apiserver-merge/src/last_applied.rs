//! Migration from client-side to server-side apply, for `kubectl` only: fields that its annotation lists as last
//! applied do not conflict, and the annotation is updated while it exists.

use crate::conflict::Conflicts;
use crate::fields::Element;
use crate::meta;
use crate::walk::{compare::compare, conform, to_set::field_set};
use crate::write::Write;
use serde_json::Value;

/// The one manager this is for.
pub(crate) const MANAGER: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Nothing if all conflicts are about fields that are as `kubectl` last applied them; otherwise those that are not.
pub(crate) fn still_in_conflict(
    conflicts: Conflicts,
    live: &Value,
    write: &Write<'_>,
) -> Result<(), Conflicts> {
    let Some(own) = as_last_applied(live, write) else { return Err(conflicts) };
    let left: Vec<_> = conflicts.0.into_iter().filter(|conflict| !own.contains(&conflict.field)).collect();
    if left.is_empty() { Ok(()) } else { Err(Conflicts(left)) }
}

/// The fields that are as the annotation says they were applied, as text.
fn as_last_applied(live: &Value, write: &Write<'_>) -> Option<Vec<String>> {
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    let shape = &write.shape.root;
    let same_version = last.get("apiVersion").and_then(Value::as_str) == Some(write.api_version);
    let sound = conform::check(shape, live, false).is_ok() && conform::check(shape, &last, false).is_ok();
    if !same_version || !sound {
        return None;
    }
    let difference = compare(shape, &last, live);
    let set = field_set(shape, &last)
        .difference(&difference.modified)
        .difference(&difference.added)
        .difference(&difference.removed);
    let text = |path: Vec<Element>| path.iter().map(ToString::to_string).collect();
    Some(set.paths().into_iter().map(text).collect())
}

fn annotation(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

/// Writes what is applied into the annotation, if there is one.
pub(crate) fn renew(object: &mut Value, applied: &Value, write: &Write<'_>) {
    if write.manager != MANAGER || annotation(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.shift_remove(ANNOTATION);
        if annotations.is_empty()
            && let Some(metadata) = meta::of(&mut applied)
        {
            metadata.shift_remove("annotations");
        }
    }
    let text = format!("{}\n", sorted(&applied));
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.insert(ANNOTATION.into(), Value::String(text));
    }
}

/// With the keys of all maps in order, as Go writes them.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> =
                fields.iter().map(|(name, field)| (name.clone(), sorted(field))).collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
