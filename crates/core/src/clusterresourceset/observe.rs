//! Reads what a ClusterResourceSet is about. Reads only.

use capstan_api::addons::{
    ClusterResourceSet, ClusterResourceSetBinding, RESOURCE_SET_SECRET_TYPE, ResourceKind, ResourceRef,
};
use capstan_api::core::Cluster;
use capstan_controller::error::Doing as _;
use capstan_controller::{Error, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::core::{ObjectMeta, Selector, SelectorExt as _};
use std::sync::Arc;

use super::content::{Content, ContentError};
use crate::Core;

/// A ConfigMap or Secret of a ClusterResourceSet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resource {
    pub(super) reference: ResourceRef,
    pub(super) state: ResourceState,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ResourceState {
    Missing,
    /// A Secret of another type.
    WrongType,
    Found {
        metadata: Box<ObjectMeta>,
        content: std::result::Result<Content, ContentError>,
    },
}

/// The selected Clusters that are not being deleted.
pub(super) async fn clusters(core: &Core, set: &ClusterResourceSet) -> Result<Vec<Arc<Cluster>>> {
    let namespace = set.namespace().unwrap_or_default();
    let selector = selector(set)?;
    let mut all = core.caches.of::<Cluster>().in_namespace(&namespace).await?;
    all.retain(|cluster| cluster.metadata.deletion_timestamp.is_none() && selector.matches(cluster.labels()));
    Ok(all)
}

/// An empty selector is no selection.
pub(super) fn selector(set: &ClusterResourceSet) -> Result<Selector> {
    let field = || {
        let (namespace, name) = (set.namespace().unwrap_or_default(), set.name_any());
        format!("ClusterResourceSet {namespace}/{name} spec.clusterSelector")
    };
    let selector = Selector::try_from(set.spec.cluster_selector.clone())
        .map_err(|problem| Error::user(field(), problem.to_string()))?;
    match selector.selects_all() {
        true => Err(Error::user(field(), "is empty: say which clusters are meant")),
        false => Ok(selector),
    }
}

/// The ConfigMaps and Secrets, read from the API server: only their metadata is cached.
pub(super) async fn resources(core: &Core, set: &ClusterResourceSet) -> Result<Vec<Resource>> {
    let namespace = set.namespace().unwrap_or_default();
    let mut resources = Vec::with_capacity(set.spec.resources.len());
    for reference in &set.spec.resources {
        let name = &reference.name;
        let doing = || format!("cannot read {:?} {namespace}/{name}", reference.kind);
        let state = match reference.kind {
            ResourceKind::ConfigMap => {
                core.api::<ConfigMap>(&namespace).get_opt(name).await.doing(doing)?.map(of_config_map)
            }
            ResourceKind::Secret => {
                core.api::<Secret>(&namespace).get_opt(name).await.doing(doing)?.map(of_secret)
            }
        };
        let state = state.unwrap_or(ResourceState::Missing);
        resources.push(Resource { reference: reference.clone(), state });
    }
    Ok(resources)
}

fn of_config_map(map: ConfigMap) -> ResourceState {
    let data = map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
    ResourceState::Found { metadata: Box::new(map.metadata), content: Content::parse(&data.collect()) }
}

fn of_secret(secret: Secret) -> ResourceState {
    if secret.type_.as_deref() != Some(RESOURCE_SET_SECRET_TYPE) {
        return ResourceState::WrongType;
    }
    let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
    ResourceState::Found { metadata: Box::new(secret.metadata), content: Content::parse(&data.collect()) }
}

/// The records that mention a ClusterResourceSet, or that it owns.
pub(super) async fn bindings_of(
    core: &Core,
    set: &ClusterResourceSet,
) -> Result<Vec<Arc<ClusterResourceSetBinding>>> {
    let namespace = set.namespace().unwrap_or_default();
    let mut all = core.caches.of::<ClusterResourceSetBinding>().in_namespace(&namespace).await?;
    let (name, uid) = (set.name_any(), set.uid());
    all.retain(|binding| {
        let owns = binding.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref());
        owns || binding.spec.bindings.iter().any(|one| one.cluster_resource_set_name == name)
    });
    Ok(all)
}
