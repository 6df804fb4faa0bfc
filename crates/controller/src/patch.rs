//! Writing an object back after a reconcile: only what changed, and never over somebody else's conditions.
//!
//! At most two requests: metadata and spec, then status. Lists of metadata that several controllers write (finalizers and
//! owners) are replaced whole by a merge patch, so those go with the resource version: a conflict there ends the
//! reconcile. Several controllers write conditions of the same object, too; these go with the resource version, and on a
//! conflict they are read again and merged by type. Status comes last, because it tells others that what spec says is
//! so; it is written although metadata could not be, because it tells users why.

use capstan_api::conditions::{Conditioned, ConditionsPatch, Precedence};
use kube::api::{Api, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::borrow::Cow;
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
        let (before, wanted) = (value(&self.before)?, value(after)?);
        let rest = self.write_rest(after, &without_status(&before), &without_status(&wanted)).await;
        // Without its last finalizer it is gone: there is nothing left to describe.
        if is_ending(after) && rest.is_ok() {
            return Ok(());
        }
        let status = difference(&status_of(&before), &status_of(&wanted));
        let (latest, rest) = match rest {
            Ok(written) => (written, Ok(())),
            Err(error) => (None, Err(error)),
        };
        rest.and(self.write_status(after, owned, status, latest).await)
    }

    /// Writes metadata and spec. Gives the object as it is then, if it was written and is still there.
    async fn write_rest(&self, after: &K, before: &Value, wanted: &Value) -> Result<Option<K>> {
        let name = after.name_any();
        let Some(mut patch) = difference(before, wanted) else { return Ok(None) };
        lock_shared_lists(&mut patch, self.before.resource_version().as_deref());
        let written = self.patch(&name, &patch, false).await;
        if after.meta().deletion_timestamp.is_some() && is_not_found(&written) {
            return Ok(None);
        }
        written.map(Some).doing(|| format!("cannot write metadata and spec of {} {name}", K::kind(&())))
    }

    /// Writes conditions, if any have changed, and the rest of `status`, to the object as it is in `latest`.
    async fn write_status(
        &self,
        after: &K,
        owned: &[&str],
        status: Option<Value>,
        latest: Option<K>,
    ) -> Result<()> {
        let name = after.name_any();
        let doing = || format!("cannot write status of {} {name}", K::kind(&()));
        let changes = ConditionsPatch::between(self.before.conditions(), after.conditions());
        let mut patch = json!({"status": status.unwrap_or_else(|| json!({}))});
        if changes.is_empty() && patch == json!({"status": {}}) {
            return Ok(());
        }
        let mut latest = latest.map_or(Cow::Borrowed(&self.before), Cow::Owned);
        for _ in 0..MOST_TRIES {
            if !changes.is_empty() {
                let merged = changes
                    .apply(latest.conditions(), Precedence::Owned(owned))
                    .map_err(|conflict| Error::transient(doing(), conflict))?;
                patch["status"]["conditions"] = json!(merged);
                patch["metadata"] = json!({"resourceVersion": latest.resource_version()});
            }
            let written = self.patch(&name, &patch, true).await;
            if after.meta().deletion_timestamp.is_some() && is_not_found(&written) {
                return Ok(());
            }
            if !is_conflict(&written) || changes.is_empty() {
                return written.map(|_| ()).doing(doing);
            }
            latest = Cow::Owned(self.api.get(&name).await.doing(doing)?);
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

fn lock_shared_lists(patch: &mut Value, version: Option<&str>) {
    let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if metadata.contains_key("finalizers") || metadata.contains_key("ownerReferences") {
        metadata.insert("resourceVersion".to_owned(), json!(version));
    }
}

fn is_ending(object: &impl ResourceExt) -> bool {
    object.meta().deletion_timestamp.is_some() && object.finalizers().is_empty()
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
