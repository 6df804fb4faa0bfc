//! Ownership after a write of the scale subresource, with upstream's peculiarities.
//!
//! Upstream shows the managers of the replicas to the scale as managers of a scale, lets the write change those, and merges them
//! back. The identity of an updater includes the version of its entry, and that is another one in a scale. So an updater of the
//! object is not found again: it gets a second entry with the replicas alone, without a time. The next write reads both
//! entries and keeps the last one, which is the one without the replicas.

use crate::fields::{Element, FieldSet};
use crate::managed::{Entry, Managed, Manager, Operation, write_entries};
use serde_json::Value;

/// Turns the `managedFields` of `new` into those after a write of the scale of `old`. Before, they are those after a write of the
/// replicas of the object itself. `replicas` is the path of the replicas, `api_version` that of the object in the request.
pub fn track_scale(old: &Value, new: &mut Value, replicas: &[String], api_version: &str) {
    let (Ok(before), Ok(after)) = (Managed::of(old), Managed::of(new)) else { return };
    if after.fields.is_empty() {
        return;
    }
    let path: Vec<Element> = replicas.iter().map(String::as_str).map(Element::field).collect();
    let mut replicas = FieldSet::default();
    replicas.insert(&path);
    let has_replicas = |managed: &Managed, manager: &Manager| {
        managed.fields.get(manager).is_some_and(|owned| owned.set.contains(&path))
    };
    let is_found_again = |manager: &Manager| {
        manager.operation == Operation::Apply
            && has_replicas(&before, manager)
            && has_replicas(&after, manager)
    };
    let rests: Vec<FieldSet> = before
        .fields
        .iter()
        .map(|(manager, owned)| {
            if is_found_again(manager) { owned.set.clone() } else { owned.set.clone().difference(&replicas) }
        })
        .collect();
    let kept = before.fields.iter().zip(&rests).filter(|(_, rest)| !rest.is_empty());
    let kept = kept.map(|((manager, owned), set)| Entry { set, ..before.entry(manager, owned) });
    let owners =
        after.fields.keys().filter(|manager| has_replicas(&after, manager) && !is_found_again(manager));
    let owners = owners.map(|manager| Entry { manager, set: &replicas, api_version, time: None });
    write_entries(kept.chain(owners).collect(), new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Shape, Write, apply, track_update};
    use serde_json::json;

    const VERSION: &str = "apps/v1";

    fn shape() -> Shape {
        let number = json!({"type": "integer"});
        let spec = json!({"type": "object", "properties": {"replicas": number, "other": number}});
        Shape::new(Some(&json!({"type": "object", "properties": {"spec": spec}})))
    }

    fn write<'a>(shape: &'a Shape, manager: &'a str, subresource: Option<&'a str>) -> Write<'a> {
        let (now, blank) = ("2026-01-01T00:00:00Z", &Value::Null);
        Write { shape, manager, api_version: VERSION, subresource, now, reset: &[], blank }
    }

    fn object(replicas: i64) -> Value {
        let metadata = json!({"name": "x", "uid": "u"});
        json!({"apiVersion": VERSION, "kind": "X", "metadata": metadata, "spec": {"replicas": replicas, "other": 1}})
    }

    /// The object after a manager has put its scale.
    fn scaled(old: &Value, manager: &str, replicas: i64) -> Value {
        let mut new = old.clone();
        new["spec"]["replicas"] = replicas.into();
        track_update(Some(old), &mut new, &write(&shape(), manager, Some("scale")));
        track_scale(old, &mut new, &["spec".to_owned(), "replicas".to_owned()], VERSION);
        new
    }

    /// Manager, fields of the spec, and whether there is a time, of each entry.
    fn entries(object: &Value) -> Vec<(&str, Vec<&str>, bool)> {
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        entries
            .iter()
            .map(|entry| {
                let fields = entry["fieldsV1"]["f:spec"].as_object().unwrap().keys().map(String::as_str);
                // The manager that created the map owns the map itself, too.
                let fields = fields.filter(|field| *field != ".").collect();
                (entry["manager"].as_str().unwrap(), fields, entry.get("time").is_some())
            })
            .collect()
    }

    #[test]
    fn an_updater_loses_the_replicas_to_a_write_that_does_not_change_them() {
        let shape = shape();
        let mut created = object(3);
        track_update(None, &mut created, &write(&shape, "ann", None));
        let (both, other, replicas) = (vec!["f:other", "f:replicas"], vec!["f:other"], vec!["f:replicas"]);
        assert_eq!(entries(&created), [("ann", both, true)]);
        let scaled = scaled(&created, "bob", 3);
        assert_eq!(entries(&scaled), [("ann", replicas, false), ("ann", other, true)]);
        let mut applied =
            json!({"apiVersion": VERSION, "kind": "X", "metadata": {"name": "x"}, "spec": {"replicas": 5}});
        let applying = write(&shape, "ann", None);
        assert!(
            apply(Some(&created), &applied, &applying, false).is_err(),
            "another operation is another manager"
        );
        let now = apply(Some(&scaled), &applied, &applying, false).unwrap().object;
        assert_eq!(now["spec"], json!({"replicas": 5, "other": 1}));
        applied["spec"] = json!({"other": 2});
        assert!(apply(Some(&scaled), &applied, &applying, false).is_err(), "the rest is still owned");
    }

    #[test]
    fn the_writer_owns_what_it_changes() {
        let shape = shape();
        let mut created = object(3);
        track_update(None, &mut created, &write(&shape, "ann", None));
        let scaled_once = scaled(&created, "bob", 4);
        let owners = [("bob", vec!["f:replicas"], false), ("ann", vec!["f:other"], true)];
        assert_eq!(entries(&scaled_once), owners);
        // Nothing of bob's entry is left without the replicas, so there is one.
        assert_eq!(entries(&scaled(&scaled_once, "bob", 5)), owners);
    }

    #[test]
    fn an_applier_is_found_again() {
        let applied = json!({"apiVersion": VERSION, "kind": "X", "metadata": {"name": "x"}, "spec": {"replicas": 3, "other": 1}});
        let mut created = apply(None, &applied, &write(&shape(), "ann", None), false).unwrap().object;
        created["metadata"]["uid"] = "u".into();
        let both = vec!["f:other", "f:replicas"];
        assert_eq!(entries(&scaled(&created, "bob", 3)), [("ann", both, true)]);
        let owners = [("ann", vec!["f:other"], true), ("bob", vec!["f:replicas"], false)];
        assert_eq!(entries(&scaled(&created, "bob", 4)), owners);
    }
}
