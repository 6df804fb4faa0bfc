//! Server-side apply that asks once.
//!
//! Applying what is already so changes nothing, but it still costs a request. After such an answer the same intent
//! is not sent again for as long as neither it nor the object changes.

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

/// So many objects are remembered; then it starts afresh, which costs a request for each.
const MOST_REMEMBERED: usize = 20_000;

/// Applies intents as one field manager.
#[derive(Debug)]
pub struct Applier {
    manager: &'static str,
    /// By UID: the version of the object on which an intent changed nothing, and the intent's hash.
    settled: Mutex<HashMap<String, (String, u64)>>,
}

impl Applier {
    /// An applier that owns what it applies under this name.
    pub fn new(manager: &'static str) -> Self {
        Self { manager, settled: Mutex::default() }
    }

    /// Makes the object what `intent` says, by force, and gives it as it is then. `None` if nothing had to be asked.
    /// `current` is the object as it was read, if it exists already; then the intent should carry its UID, so that
    /// it is never made anew by accident.
    pub async fn apply<K>(
        &self,
        api: &Api<K>,
        current: Option<&ObjectMeta>,
        intent: &impl Serialize,
    ) -> Result<Option<K>>
    where
        K: Resource + Clone + Debug + DeserializeOwned,
    {
        let intent = intent_of(intent)?;
        let name = intent.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = intent.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let hash = hash(&intent);
        let key = current.and_then(|meta| Some((meta.uid.clone()?, meta.resource_version.clone()?)));
        if let Some((uid, version)) = &key
            && self.settled().get(uid).is_some_and(|known| known == &(version.clone(), hash))
        {
            return Ok(None);
        }
        let parameters = PatchParams::apply(self.manager).force();
        let applied = api
            .patch(&name, &parameters, &Patch::Apply(&intent))
            .await
            .doing(|| format!("cannot apply {kind} {name}"))?;
        if let Some((uid, version)) = key
            && applied.meta().resource_version.as_ref() == Some(&version)
        {
            let mut settled = self.settled();
            if settled.len() >= MOST_REMEMBERED {
                settled.clear();
            }
            settled.insert(uid, (version, hash));
        }
        Ok(Some(applied))
    }

    fn settled(&self) -> std::sync::MutexGuard<'_, HashMap<String, (String, u64)>> {
        // What is inside is a cache: a panic elsewhere has not broken it.
        self.settled.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The object without what nobody can intend.
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
