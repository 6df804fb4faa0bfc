//! Server-side apply that sends no request if nothing would change.
//!
//! An apply without effect still costs a request. So an intent is not sent if the object already has it: the fields have the
//! intended values, and the field manager owns them (`owned`). This comparison takes a while. Its result is kept as long as
//! neither the intent nor the object changes: its spec, which counts generations, and its metadata. No applier intends
//! anything about status.

mod dry_run;
pub(crate) mod owned;

pub use dry_run::Change;

use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use kube::core::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Mutex;

use crate::error::{Doing, Error, Result};

/// Objects that are remembered. When there are more, all are forgotten, which costs one comparison for each.
const MOST_REMEMBERED: usize = 20_000;

/// Server-side apply as one field manager.
#[derive(Debug)]
pub struct Applier {
    manager: &'static str,
    /// By UID: what an object was when an intent had been applied to it, and the intent's hash.
    applied: Mutex<HashMap<String, (u64, u64)>>,
}

impl Applier {
    /// An applier with this field manager.
    pub fn new(manager: &'static str) -> Self {
        Self { manager, applied: Mutex::default() }
    }

    /// Applies `intent` by force and returns the resulting object, or `None` if no request was needed. `current` is
    /// the object as it was read, if it exists; then the intent should have its UID, so that a deleted object is not
    /// created again by accident.
    pub async fn apply<K>(
        &self,
        api: &Api<K>,
        current: Option<&K>,
        intent: &impl Serialize,
    ) -> Result<Option<K>>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Serialize,
    {
        let intent = intent_of(intent)?;
        let name = intent.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = intent.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let hash = hash(&intent);
        if let Some(current) = current
            && self.is_applied(current, &intent, hash)?
        {
            return Ok(None);
        }
        let parameters = PatchParams::apply(self.manager).force();
        let applied = api
            .patch(&name, &parameters, &Patch::Apply(&intent))
            .await
            .doing(|| format!("cannot apply {kind} {name}"))?;
        if let Some((uid, looks)) = looks_of(applied.meta(), &intent) {
            self.remember(uid, looks, hash);
        }
        Ok(Some(applied))
    }

    fn is_applied<K: Resource + Serialize>(&self, current: &K, intent: &Value, hash: u64) -> Result<bool> {
        let Some((uid, looks)) = looks_of(current.meta(), intent) else { return Ok(false) };
        if self.applied().get(&uid).is_some_and(|known| *known == (looks, hash)) {
            return Ok(true);
        }
        let value = serde_json::to_value(current)
            .map_err(|error| Error::transient("cannot serialise an object", error))?;
        let is_applied = owned::is_applied(self.manager, current.meta(), intent, &value);
        if is_applied {
            self.remember(uid, looks, hash);
        }
        Ok(is_applied)
    }

    fn remember(&self, uid: String, looks: u64, hash: u64) {
        let mut applied = self.applied();
        if applied.len() >= MOST_REMEMBERED {
            applied.clear();
        }
        applied.insert(uid, (looks, hash));
    }

    fn applied(&self) -> std::sync::MutexGuard<'_, HashMap<String, (u64, u64)>> {
        // The content is a cache: a panic elsewhere leaves it usable.
        self.applied.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The UID of an object, and what it has of all that is intended as one number, spec by its generation. What others add to
/// its metadata is theirs. `None` for a kind without generations: a change of its spec could not be detected.
fn looks_of(meta: &ObjectMeta, intent: &Value) -> Option<(String, u64)> {
    let mut hasher = DefaultHasher::new();
    (meta.generation?, meta.deletion_timestamp.is_some()).hash(&mut hasher);
    for (field, has) in [("labels", &meta.labels), ("annotations", &meta.annotations)] {
        let wanted = intent["metadata"][field].as_object().into_iter().flatten();
        for (key, _) in wanted {
            has.as_ref().and_then(|has| has.get(key)).hash(&mut hasher);
        }
    }
    let finalizers = intent["metadata"]["finalizers"].as_array().into_iter().flatten();
    for wanted in finalizers {
        let mut present = meta.finalizers.iter().flatten();
        present.any(|present| wanted == present.as_str()).hash(&mut hasher);
    }
    let owners = intent["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    for wanted in owners {
        let mut present = meta.owner_references.iter().flatten();
        let present = present.find(|present| wanted["uid"] == present.uid.as_str());
        present.map(|owner| (owner.controller, owner.block_owner_deletion)).hash(&mut hasher);
    }
    Some((meta.uid.clone()?, hasher.finish()))
}

/// The object without the fields that only the API server sets.
fn intent_of(object: &impl Serialize) -> Result<Value> {
    let mut intent = serde_json::to_value(object)
        .map_err(|error| Error::transient("cannot serialise an object to apply", error))?;
    if let Some(fields) = intent.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = intent.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in
            ["managedFields", "resourceVersion", "creationTimestamp", "generation", "deletionTimestamp"]
        {
            metadata.remove(field);
        }
    }
    Ok(intent)
}

fn hash(intent: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    intent.to_string().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_looks_the_same_whatever_others_say() {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "2"});
        let intent = json!({"metadata": {
            "labels": {"a": "b"}, "annotations": {"x": "y"}, "finalizers": ["f"], "ownerReferences": [owner],
        }});
        let before = json!({
            "uid": "1", "generation": 2, "resourceVersion": "7", "labels": {"a": "b", "theirs": "1"},
            "annotations": {"x": "y"}, "finalizers": ["f"], "ownerReferences": [owner],
        });
        let with = |field: &str, value: Value| {
            let mut changed = before.clone();
            changed[field] = value;
            looks_of(&serde_json::from_value(changed).expect("metadata"), &intent)
        };
        let looks = with("resourceVersion", json!("7"));
        assert!(looks.is_some());
        for (field, value) in [
            ("resourceVersion", json!("8")),
            ("labels", json!({"a": "b", "theirs": "2"})),
            ("finalizers", json!(["f", "theirs"])),
        ] {
            assert_eq!(with(field, value), looks, "{field}");
        }
        for (field, value) in [
            ("generation", json!(3)),
            ("labels", json!({"a": "c"})),
            ("annotations", json!({})),
            ("finalizers", json!(["theirs"])),
            ("ownerReferences", json!([])),
        ] {
            assert_ne!(with(field, value), looks, "{field}");
        }
        assert_eq!(with("generation", Value::Null), None);
    }

    #[test]
    fn what_the_server_fills_in_is_no_intent() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "uid": "1", "resourceVersion": "7", "managedFields": [], "generation": 2},
            "data": {"a": "b"}, "status": {},
        });
        let intent = intent_of(&object).expect("serialises");
        assert_eq!(
            intent,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "1"}, "data": {"a": "b"}})
        );
        assert_eq!(hash(&intent), hash(&intent.clone()));
        assert_ne!(hash(&intent), hash(&json!({})));
    }
}
