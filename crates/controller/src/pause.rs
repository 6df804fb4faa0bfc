//! The pause: no controller writes an object while its Cluster, or the object itself, is paused.

use capstan_api::conditions::{ConditionStatus, Conditioned, NewCondition, is_true, set, types};
use capstan_api::core::Cluster;
use capstan_api::meta::annotations;
use jiff::Timestamp;
use kube::api::Api;
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

use crate::error::Result;
use crate::patch::Patcher;

/// Why the object is paused, as the message of the `Paused` condition; `None` if it is not.
pub fn reason(cluster: Option<&Cluster>, kind: &str, object: &ObjectMeta) -> Option<String> {
    let by_cluster = cluster.is_some_and(|cluster| cluster.spec.paused == Some(true));
    let by_object = object.annotations.as_ref().is_some_and(|map| map.contains_key(annotations::PAUSED));
    let is_moved =
        object.annotations.as_ref().is_some_and(|map| map.contains_key(annotations::DELETE_FOR_MOVE));
    let reasons: Vec<String> = [
        by_cluster.then(|| "Cluster spec.paused is set to true".to_owned()),
        by_object.then(|| format!("{kind} has the {} annotation", annotations::PAUSED)),
        // It lives on elsewhere: what is deleted here is a copy, and nothing that it stands for may go with it.
        is_moved.then(|| format!("{kind} has the {} annotation", annotations::DELETE_FOR_MOVE)),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!reasons.is_empty()).then(|| reasons.join(", "))
}

/// The `Paused` condition for the result of [`reason`].
pub fn condition(reason: Option<&str>) -> NewCondition {
    match reason {
        Some(reason) => NewCondition::new(types::PAUSED, ConditionStatus::True, "Paused").message(reason),
        None => NewCondition::new(types::PAUSED, ConditionStatus::False, "NotPaused"),
    }
}

/// Whether the reconcile may continue: not while the object is paused, which is written at once, and not after a
/// write, which triggers the next reconcile. That an object is not paused is written with the rest of its status, by
/// [`lifted`].
pub async fn allows<K>(api: &Api<K>, object: &K, cluster: Option<&Cluster>, now: Timestamp) -> Result<bool>
where
    K: Resource<DynamicType = ()> + Conditioned + Serialize + DeserializeOwned + Clone + Debug,
{
    let reason = reason(cluster, &K::kind(&()), object.meta());
    if reason.is_none() && !is_true(object, types::PAUSED) {
        return Ok(true);
    }
    let mut updated = object.clone();
    if set(&mut updated, condition(reason.as_deref()), now) {
        Patcher::new(api.clone(), object).finish(&updated, &[types::PAUSED]).await?;
        return Ok(false);
    }
    Ok(reason.is_none())
}

/// Sets the `Paused` condition to false. A reconcile that writes the status is not paused.
pub fn lifted(object: &mut impl Conditioned, now: Timestamp) {
    set(object, condition(None), now);
}

/// Whether the object is externally managed, so that its provider must not reconcile it.
pub fn is_externally_managed(object: &impl ResourceExt) -> bool {
    object.annotations().contains_key(annotations::MANAGED_BY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_object_itself_can_ask_for_a_pause() {
        let mut meta = ObjectMeta::default();
        assert_eq!(reason(None, "Machine", &meta), None);
        meta.annotations = Some(BTreeMap::from([(annotations::PAUSED.to_owned(), String::new())]));
        let why = reason(None, "Machine", &meta);
        assert_eq!(why.as_deref(), Some("Machine has the cluster.x-k8s.io/paused annotation"));
        meta.annotations = Some(BTreeMap::from([(annotations::DELETE_FOR_MOVE.to_owned(), String::new())]));
        assert!(reason(None, "Host", &meta).is_some_and(|why| why.contains("delete-for-move")));
    }
}
