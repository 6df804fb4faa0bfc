//! What an apply would change, as the API server says: by a dry run, after defaults, normalisation and webhooks.

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Map, Value, json};

use super::{Applier, hash, intent_of, looks_of};
use crate::error::{Doing as _, Error, Result};

/// What an apply would change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Nothing.
    None,
    /// Metadata, or which fields belong to the field manager.
    Metadata,
    /// The spec.
    Spec,
}

impl Applier {
    /// What applying `intent` to an object would change. No request is made if the object shows that nothing would.
    /// Otherwise there are two dry runs, of the intent and of the object as it is: defaults that are newer than the
    /// object are no change. Both requests have the annotation `mark`, by which admission webhooks recognize them.
    ///
    /// # Errors
    /// If the API server rejects a dry run or does not respond.
    pub async fn foresee(
        &self,
        api: &Api<DynamicObject>,
        current: &DynamicObject,
        intent: &Value,
        mark: &str,
    ) -> Result<Change> {
        let intent = intent_of(intent)?;
        let hash = hash(&intent);
        if self.is_applied(current, &intent, hash)? {
            return Ok(Change::None);
        }
        let before = serde_json::to_value(current)
            .map_err(|error| Error::transient("cannot serialise an object", error))?;
        let after = self.try_out(api, &intent, mark).await?;
        let unchanged = self.try_out(api, &written_by_appliers(&before), mark).await?;
        let change = change(self.manager, &before, &unchanged, &after, mark);
        if change == Change::None
            && let Some((uid, looks)) = looks_of(&current.metadata, &intent)
        {
            self.remember(uid, looks, hash);
        }
        Ok(change)
    }

    async fn try_out(&self, api: &Api<DynamicObject>, intent: &Value, mark: &str) -> Result<Value> {
        let mut intent = intent.clone();
        intent["metadata"]["annotations"][mark] = json!("");
        let text = |pointer: &str| intent.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind").to_owned(), text("/metadata/name").to_owned());
        let parameters = PatchParams::apply(self.manager).force().dry_run();
        let tried = api.patch(&name, &parameters, &Patch::Apply(&intent)).await;
        let tried = tried.doing(|| format!("cannot apply {kind} {name} in a dry run"))?;
        serde_json::to_value(tried).map_err(|error| Error::transient("cannot serialise an object", error))
    }
}

/// The fields of an object that appliers write.
fn written_by_appliers(object: &Value) -> Value {
    let mut written = json!({"metadata": {}});
    for field in ["apiVersion", "kind", "spec"] {
        if let Some(value) = object.get(field) {
            written[field] = value.clone();
        }
    }
    for field in ["name", "namespace", "uid", "labels", "annotations", "ownerReferences"] {
        if let Some(value) = object["metadata"].get(field).filter(|value| !value.is_null()) {
            written["metadata"][field] = value.clone();
        }
    }
    written
}

/// Compares the dry run of an intent with that of the object, and with which fields the field manager owns now.
fn change(manager: &str, before: &Value, unchanged: &Value, after: &Value, mark: &str) -> Change {
    if unchanged.get("spec") != after.get("spec") {
        return Change::Spec;
    }
    let metadata = |object: &Value, field: &str| {
        let mut value = object["metadata"].get(field).cloned().unwrap_or_default();
        remove(&mut value, mark);
        if is_empty(&value) { Value::Null } else { value }
    };
    let differs = ["labels", "annotations", "ownerReferences"]
        .iter()
        .any(|field| metadata(unchanged, field) != metadata(after, field));
    if differs || owned(manager, before, mark) != owned(manager, after, mark) {
        return Change::Metadata;
    }
    Change::None
}

/// The fields that the field manager owns, without the annotation of dry runs.
fn owned(manager: &str, object: &Value, mark: &str) -> Option<Value> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let entry = entries.iter().find(|entry| {
        entry["manager"] == manager && entry["operation"] == "Apply" && entry.get("subresource").is_none()
    })?;
    let mut fields = match entry.get("fieldsV1")? {
        Value::String(text) => serde_json::from_str(text).ok()?,
        fields => fields.clone(),
    };
    if let Some(annotations) = fields.pointer_mut("/f:metadata/f:annotations") {
        remove(annotations, &format!("f:{mark}"));
    }
    drop_empty(&mut fields);
    Some(fields)
}

fn remove(value: &mut Value, key: &str) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove(key);
    }
}

/// Drops the parents of the annotation if they are there only for it.
fn drop_empty(fields: &mut Value) {
    for (parent, child) in [("/f:metadata", "f:annotations"), ("", "f:metadata")] {
        if let Some(parent) = fields.pointer_mut(parent).and_then(Value::as_object_mut)
            && parent
                .get(child)
                .and_then(Value::as_object)
                .is_some_and(|map| map.keys().all(|name| name == "."))
        {
            parent.remove(child);
        }
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: &str = "example.com/dry-run";

    fn object(labels: &Value, spec: &Value, fields: &Value) -> Value {
        json!({"metadata": {"labels": labels, "managedFields": [
            {"manager": "other", "operation": "Update", "fieldsV1": {"f:spec": {}}},
            {"manager": "m", "operation": "Apply", "fieldsV1": fields},
        ]}, "spec": spec})
    }

    #[test]
    fn a_dry_run_shows_what_changes() {
        let (labels, spec) = (json!({"a": "1"}), json!({"l": [{"x": 1, "default": 2}]}));
        let fields = json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:l": {}}});
        let mut marked = fields.clone();
        marked["f:metadata"]["f:annotations"] = json!({(format!("f:{MARK}")): {}});
        let before = object(&labels, &spec, &Value::String(fields.to_string()));
        for (what, after, expected) in [
            ("nothing", object(&labels, &spec, &marked), Change::None),
            ("a label", object(&json!({"a": "2"}), &spec, &marked), Change::Metadata),
            ("the spec", object(&labels, &json!({"l": []}), &marked), Change::Spec),
            (
                "ownership",
                object(&labels, &spec, &json!({"f:metadata": {"f:labels": {"f:a": {}}}})),
                Change::Metadata,
            ),
        ] {
            let mut after = after;
            after["metadata"]["annotations"] = json!({MARK: ""});
            assert_eq!(change("m", &before, &before, &after, MARK), expected, "{what}");
        }
        let defaulted = object(&labels, &json!({"l": [{"x": 1, "default": 2, "new": 3}]}), &marked);
        assert_eq!(change("m", &before, &defaulted, &defaulted, MARK), Change::None, "a newer default");
    }

    #[test]
    fn the_object_is_tried_out_without_what_others_keep_in_it() {
        let object = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "uid": "u",
            "resourceVersion": "7", "generation": 1, "managedFields": [], "finalizers": ["f"]}, "spec": {}, "status": {}});
        let expected =
            json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "uid": "u"}, "spec": {}});
        assert_eq!(written_by_appliers(&object), expected);
    }
}
