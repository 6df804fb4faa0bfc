//! Writes other than apply: create, replace and patch. The writer becomes the owner of the fields that it changes.

use crate::managed::{Managed, Manager, Operation, Owned};
use crate::meta;
use crate::walk::conform;
use crate::write::{Write, take};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Sets the `managedFields` of `new` after a write that replaces `old`; `old` is none for a create.
///
/// `new` is the object that the client sent or patched, pruned and defaulted, before `status` and similar fields are
/// reset. If it contains `managedFields`, they are used: a client may edit them, and may clear them with an empty list
/// or a single empty entry. An object that does not match the schema loses its managers, as upstream.
pub fn track_update(old: Option<&Value>, new: &mut Value, write: &Write<'_>) {
    let sent = meta::take_managed_fields(new);
    let mut live = old.cloned().unwrap_or_else(|| empty(new, write));
    let live_entries = meta::take_managed_fields(&mut live);
    let managed = match (write.subresource, sent) {
        (None, Some(Value::Array(entries))) if gives_up(&entries) => Managed::default(),
        (None, Some(Value::Array(entries))) => match Managed::read(&entries) {
            Ok(managed) if !managed.fields.is_empty() => managed,
            _ => read(live_entries),
        },
        _ => read(live_entries),
    };
    // An object whose managers were given up, or never kept, is not tracked until it is applied.
    let exists = live.pointer("/metadata/uid").and_then(Value::as_str).is_some_and(|uid| !uid.is_empty());
    if managed.fields.is_empty() && exists {
        return;
    }
    let shape = &write.shape.root;
    if conform::check(shape, &live, true).is_err() || conform::check(shape, new, true).is_err() {
        return;
    }
    // A typed object has its blank fields also after they were removed.
    fill(&mut live, write.blank);
    let mut filled = Cow::Borrowed(&*new);
    if write.blank.is_object() {
        fill(filled.to_mut(), write.blank);
    }
    let mut managed = track(managed, &live, &filled, write);
    managed.cap_updaters();
    managed.write(new);
}

/// Adds the fields of `blank` that `object` lacks.
fn fill(object: &mut Value, blank: &Value) {
    let (Value::Object(fields), Value::Object(blank)) = (object, blank) else { return };
    for (name, value) in blank {
        match fields.get_mut(name) {
            Some(field) => fill(field, value),
            None => {
                fields.insert(name.clone(), value.clone());
            }
        }
    }
}

/// The object before there was one.
pub(crate) fn empty(like: &Value, write: &Write<'_>) -> Value {
    let mut empty = write.blank.as_object().cloned().unwrap_or_default();
    for name in ["apiVersion", "kind"] {
        if let Some(value) = like.get(name) {
            empty.insert(name.to_string(), value.clone());
        }
    }
    Value::Object(empty)
}

fn gives_up(entries: &[Value]) -> bool {
    entries.is_empty() || entries == [json!({})]
}

fn read(entries: Option<Value>) -> Managed {
    match entries {
        Some(Value::Array(entries)) => Managed::read(&entries).unwrap_or_default(),
        _ => Managed::default(),
    }
}

/// The managers after a write that made `new` of `live`.
pub(crate) fn track(mut managed: Managed, live: &Value, new: &Value, write: &Write<'_>) -> Managed {
    write.reconcile(&mut managed);
    let comparison = write.compare(live, new);
    // Nobody yet: what the writer owned before it loses like everyone, and gets back with the rest.
    let nobody = Manager { subresource: "\0".into(), ..write.manager(Operation::Update) };
    // With force there are no conflicts.
    let _ = take(&mut managed, &comparison, &nobody, true);
    let set = comparison.modified.union(comparison.added).difference(&meta::UNOWNED);
    if !set.is_empty() {
        let writer = write.manager(Operation::Update);
        let before = managed.fields.remove(&writer).map(|owned| owned.set).unwrap_or_default();
        managed.times.insert(writer.clone(), write.now.to_string());
        managed
            .fields
            .insert(writer, Owned { set: set.union(before), api_version: write.api_version.into() });
    }
    managed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    /// `rules` of a typed Role is null after it was removed, and the writer has set it to that.
    #[test]
    fn a_blank_field_that_is_removed_is_owned() {
        let rules = json!({"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}});
        let shape = Shape::new(Some(&json!({"type": "object", "properties": {"rules": rules}})));
        let blank = json!({"rules": null});
        let write = |manager| Write {
            shape: &shape,
            manager,
            api_version: "x/v1",
            subresource: None,
            now: "2026-01-01T00:00:00Z",
            reset: &[],
            blank: &blank,
        };
        let mut old = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "rules": ["a"]});
        track_update(None, &mut old, &write("creator"));
        old["metadata"]["uid"] = json!("u");
        let mut new = old.clone();
        new.as_object_mut().unwrap().remove("rules");
        track_update(Some(&old), &mut new, &write("patcher"));
        assert_eq!(new.get("rules"), None);
        let entries = new["metadata"]["managedFields"].as_array().unwrap();
        let owned: Vec<_> = entries.iter().map(|entry| (&entry["manager"], &entry["fieldsV1"])).collect();
        assert_eq!(owned, [(&json!("patcher"), &json!({"f:rules": {}}))]);
    }
}
