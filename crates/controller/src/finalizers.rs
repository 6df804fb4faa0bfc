//! Finalizers: what keeps an object until its controller is done with it.

use kube::api::{Api, Patch, PatchParams};
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt::Debug;

use crate::error::{Doing, Result};

/// Adds the finalizer unless the object has it or is being deleted, and returns whether it was added. The reconcile
/// ends then: the write triggers the next one, which sees the finalizer before it creates anything.
pub async fn ensure<K>(api: &Api<K>, object: &K, finalizer: &str) -> Result<bool>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    if object.meta().deletion_timestamp.is_some() || has(object.meta(), finalizer) {
        return Ok(false);
    }
    let mut finalizers = object.finalizers().to_vec();
    finalizers.push(finalizer.to_owned());
    // The list is replaced whole, so it must not have changed meanwhile.
    let patch = json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": finalizers}});
    let name = object.name_any();
    api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .doing(|| format!("cannot add the finalizer of {} {name}", K::kind(&())))?;
    Ok(true)
}

/// Whether the object has the finalizer.
pub fn has(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|present| present == finalizer)
}

/// Removes the finalizer, and returns whether the object had it.
pub fn remove(meta: &mut ObjectMeta, finalizer: &str) -> bool {
    let Some(finalizers) = &mut meta.finalizers else { return false };
    let before = finalizers.len();
    finalizers.retain(|present| present != finalizer);
    finalizers.len() != before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_finalizer_goes() {
        let mut meta = ObjectMeta { finalizers: Some(vec!["a".into(), "b".into()]), ..Default::default() };
        assert!(has(&meta, "a"));
        assert!(remove(&mut meta, "a"));
        assert!(!remove(&mut meta, "a"));
        assert_eq!(meta.finalizers, Some(vec!["b".to_owned()]));
    }
}
