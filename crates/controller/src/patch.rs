//! Writing an object back after a reconcile: only what changed, and never over somebody else's conditions.
//!
//! Up to three requests, in this order: conditions, then metadata and spec, then the rest of status. Conditions
//! go first and with the resource version, because several controllers write conditions of the same object; on
//! a conflict they are read again and merged by type. Lists of metadata that several controllers write (finalizers
//! and owners) are replaced whole by a merge patch, so those go with the resource version too: a conflict there
//! ends the reconcile.

use capstan_api::conditions::{Condition, Conditioned, ConditionsPatch, Precedence};
use kube::api::{Api, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;

use crate::error::{Doing, Error, Result};
use crate::merge::difference;

/// How often conditions are read again and merged before the reconcile is given up.
const MOST_TRIES: usize = 10;

/// Remembers what an object was, to write back what became of it.
pub struct Patcher<K> {
    api: Api<K>,
    before: K,
}

impl<K> Patcher<K>
where
    K: Resource<DynamicType = ()> + Conditioned + Serialize + DeserializeOwned + Clone + Debug,
{
    /// Remembers `object` as it was read.
    pub fn new(api: Api<K>, object: &K) -> Self {
        Self { api, before: object.clone() }
    }

    /// Writes what differs. `owned` are the condition types whose value is this controller's to say.
    pub async fn finish(self, after: &K, owned: &[&str]) -> Result<()> {
        let name = after.name_any();
        let doing = |what: &str| format!("cannot write {what} of {} {name}", K::kind(&()));
        let version = self.write_conditions(after, owned).await?;

        let (before, wanted) = (value(&self.before)?, value(after)?);
        if let Some(mut patch) = difference(&without_status(&before), &without_status(&wanted)) {
            lock_shared_lists(&mut patch, version.as_deref());
            let written = self.patch(&name, &patch, false).await;
            if after.meta().deletion_timestamp.is_some() && is_not_found(&written) {
                return Ok(());
            }
            written.doing(|| doing("metadata and spec"))?;
        }
        if let Some(status) = difference(&status_of(&before), &status_of(&wanted)) {
            let patch = json!({"status": status});
            let written = self.patch(&name, &patch, true).await;
            // The last finalizer went with the request before: there is nothing left to describe.
            if after.meta().deletion_timestamp.is_some() && is_not_found(&written) {
                return Ok(());
            }
            written.doing(|| doing("status"))?;
        }
        Ok(())
    }

    /// Gives the version of the object that what comes next builds on: that of its own write, unless somebody else
    /// has written in between.
    async fn write_conditions(&self, after: &K, owned: &[&str]) -> Result<Option<String>> {
        let name = after.name_any();
        let read = self.before.resource_version();
        let changes = ConditionsPatch::between(self.before.conditions(), after.conditions());
        if changes.is_empty() {
            return Ok(read);
        }
        let doing = || format!("cannot write conditions of {} {name}", K::kind(&()));
        let mut latest = self.before.clone();
        for _ in 0..MOST_TRIES {
            let merged = changes
                .apply(latest.conditions(), Precedence::Owned(owned))
                .map_err(|conflict| Error::transient(doing(), conflict))?;
            let written = self.patch(&name, &conditions_patch(&latest, &merged), true).await;
            if !is_conflict(&written) {
                if self.before.meta().deletion_timestamp.is_some() && is_not_found(&written) {
                    return Ok(read);
                }
                let written = written.doing(doing)?;
                let undisturbed = latest.resource_version() == read;
                return Ok(if undisturbed { written.resource_version() } else { read });
            }
            latest = self.api.get(&name).await.doing(doing)?;
        }
        Err(Error::Conflict { doing: doing() })
    }

    async fn patch(&self, name: &str, patch: &Value, status: bool) -> std::result::Result<K, kube::Error> {
        let params = PatchParams::default();
        match status {
            true => self.api.patch_status(name, &params, &Patch::Merge(patch)).await,
            false => self.api.patch(name, &params, &Patch::Merge(patch)).await,
        }
    }
}

fn conditions_patch<K: ResourceExt>(latest: &K, merged: &[Condition]) -> Value {
    json!({
        "metadata": {"resourceVersion": latest.resource_version()},
        "status": {"conditions": merged},
    })
}

fn lock_shared_lists(patch: &mut Value, version: Option<&str>) {
    let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if metadata.contains_key("finalizers") || metadata.contains_key("ownerReferences") {
        metadata.insert("resourceVersion".to_owned(), json!(version));
    }
}

fn value<K: Serialize>(object: &K) -> Result<Value> {
    serde_json::to_value(object).map_err(|error| Error::transient("cannot serialise an object", error))
}

fn without_status(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

fn status_of(object: &Value) -> Value {
    let mut status = object.get("status").cloned().unwrap_or_else(|| json!({}));
    if let Some(fields) = status.as_object_mut() {
        fields.remove("conditions");
    }
    status
}

fn is_conflict<T>(result: &std::result::Result<T, kube::Error>) -> bool {
    matches!(result, Err(kube::Error::Api(status)) if status.code == 409)
}

fn is_not_found<T>(result: &std::result::Result<T, kube::Error>) -> bool {
    matches!(result, Err(kube::Error::Api(status)) if status.code == 404)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_others_write_too_are_locked() {
        let mut patch = json!({"metadata": {"labels": {"a": "b"}}, "spec": {}});
        lock_shared_lists(&mut patch, Some("7"));
        assert_eq!(patch, json!({"metadata": {"labels": {"a": "b"}}, "spec": {}}));
        let mut patch = json!({"metadata": {"finalizers": []}});
        lock_shared_lists(&mut patch, Some("7"));
        assert_eq!(patch, json!({"metadata": {"finalizers": [], "resourceVersion": "7"}}));
    }
}
