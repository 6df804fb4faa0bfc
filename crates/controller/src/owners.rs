//! Owner references: the creator of an object, its controller, and garbage collection.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt};

/// A controller owner reference to `owner` with `blockOwnerDeletion`.
pub fn controller<K: Resource<DynamicType = ()>>(owner: &K) -> Option<OwnerReference> {
    let reference = owner.controller_owner_ref(&())?;
    Some(OwnerReference { block_owner_deletion: Some(true), ..reference })
}

/// An owner reference to `owner` that is not a controller reference.
pub fn plain<K: Resource<DynamicType = ()>>(owner: &K) -> Option<OwnerReference> {
    owner.owner_ref(&())
}

/// Whether two references mean the same object. The version does not count: it may have moved on.
fn same_object(a: &OwnerReference, b: &OwnerReference) -> bool {
    a.kind == b.kind && a.name == b.name && group(&a.api_version) == group(&b.api_version)
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Adds `reference`, or replaces the reference to the same object, and returns whether anything changed.
pub fn ensure(meta: &mut ObjectMeta, reference: &OwnerReference) -> bool {
    let owners = meta.owner_references.get_or_insert_default();
    match owners.iter_mut().find(|owner| same_object(owner, reference)) {
        Some(owner) if owner == reference => false,
        Some(owner) => {
            owner.clone_from(reference);
            true
        }
        None => {
            owners.push(reference.clone());
            true
        }
    }
}

/// Removes the reference to the same object as `reference`, and returns whether there was one.
pub fn remove(meta: &mut ObjectMeta, reference: &OwnerReference) -> bool {
    let Some(owners) = &mut meta.owner_references else { return false };
    let before = owners.len();
    owners.retain(|owner| !same_object(owner, reference));
    owners.len() != before
}

/// The controller owner reference, if any.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether `owner` controls `object`, compared by UID.
pub fn is_controlled_by<O: Resource<DynamicType = ()>>(object: &ObjectMeta, owner: &O) -> bool {
    match (controller_of(object), owner.uid()) {
        (Some(reference), Some(uid)) => reference.uid == uid,
        _ => false,
    }
}

/// The owner reference of a kind and group.
pub fn of_kind<'a>(meta: &'a ObjectMeta, kind: &str, api_group: &str) -> Option<&'a OwnerReference> {
    meta.owner_references
        .iter()
        .flatten()
        .find(|owner| owner.kind == kind && group(&owner.api_version) == api_group)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(api_version: &str, name: &str, controller: Option<bool>) -> OwnerReference {
        OwnerReference {
            api_version: api_version.to_owned(),
            kind: "Cluster".to_owned(),
            name: name.to_owned(),
            uid: "1".to_owned(),
            controller,
            block_owner_deletion: None,
        }
    }

    #[test]
    fn an_owner_is_there_once_whatever_its_version() {
        let mut meta = ObjectMeta::default();
        assert!(ensure(&mut meta, &reference("cluster.x-k8s.io/v1beta1", "a", None)));
        assert!(ensure(&mut meta, &reference("cluster.x-k8s.io/v1beta2", "a", None)));
        assert!(!ensure(&mut meta, &reference("cluster.x-k8s.io/v1beta2", "a", None)));
        assert_eq!(meta.owner_references.as_ref().map(Vec::len), Some(1));
        assert!(ensure(&mut meta, &reference("other.io/v1", "a", None)));
        assert_eq!(meta.owner_references.as_ref().map(Vec::len), Some(2));
        assert!(remove(&mut meta, &reference("cluster.x-k8s.io/v1beta9", "a", None)));
        assert!(!remove(&mut meta, &reference("cluster.x-k8s.io/v1beta9", "a", None)));
    }

    #[test]
    fn only_a_controller_controls() {
        let mut meta = ObjectMeta::default();
        ensure(&mut meta, &reference("a/v1", "a", None));
        assert!(controller_of(&meta).is_none());
        ensure(&mut meta, &reference("a/v1", "a", Some(true)));
        assert_eq!(controller_of(&meta).map(|owner| owner.name.as_str()), Some("a"));
    }
}
