//! Reads everything of a namespace that may belong to a move.

use capstan_api::clusterctl::{Provider, ProviderType};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::DynamicObject;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::graph::{Graph, Object, class_of};
use crate::kinds::MovableKind;
use crate::plane::MoveEndpoint;

/// Requests at a time.
pub(crate) const PARALLEL: usize = 8;

/// Everything in the namespace, everything without one, the Secrets beside infrastructure providers, and the classes of
/// other namespaces that Clusters here are made from.
pub(crate) async fn graph(
    plane: &MoveEndpoint,
    kinds: &[Arc<MovableKind>],
    namespace: &str,
) -> Result<Graph> {
    let mut objects = list(plane, kinds, namespace).await?;
    if let Some(secrets) = kinds.iter().find(|kind| kind.is_secret()) {
        for of_provider in namespaces_of_infrastructure(&plane.providers().await?) {
            if of_provider != namespace {
                objects.extend(plane.list(secrets, &of_provider).await?);
            }
        }
    }
    let mut classes_of_others = Vec::new();
    if let Some(clusters) = kinds.iter().find(|kind| kind.is_cluster()) {
        for cluster in plane.list(clusters, "").await? {
            match class_of(&cluster) {
                Some(class) if cluster.namespace() != namespace && class.0 == namespace => {
                    classes_of_others.push(class);
                }
                Some(class) if cluster.namespace() == namespace && class.0 != namespace => {
                    objects.extend(foreign_class(plane, kinds, &class).await?);
                }
                _ => {}
            }
        }
    }
    Ok(Graph::new(objects, namespace, &classes_of_others))
}

/// Every object of these kinds, by kind and then as the server lists them.
pub(crate) async fn list(
    plane: &MoveEndpoint,
    kinds: &[Arc<MovableKind>],
    namespace: &str,
) -> Result<Vec<Object>> {
    let lists: Vec<Vec<Object>> = futures::stream::iter(kinds)
        .map(|kind| plane.list(kind, namespace))
        .buffered(PARALLEL)
        .try_collect()
        .await?;
    Ok(lists.into_iter().flatten().collect())
}

fn namespaces_of_infrastructure(providers: &[Provider]) -> BTreeSet<String> {
    providers
        .iter()
        .filter(|provider| provider.spec.provider_type() == Some(ProviderType::Infrastructure))
        .filter_map(kube::ResourceExt::namespace)
        .collect()
}

/// A class of another namespace, and the templates it names.
async fn foreign_class(
    plane: &MoveEndpoint,
    kinds: &[Arc<MovableKind>],
    class: &(String, String),
) -> Result<Vec<Object>> {
    let (namespace, name) = class;
    let missing = || {
        Error::refused(format!(
            "ClusterClass {namespace}/{name} is missing, and Clusters here are made from it"
        ))
    };
    let kind = kinds.iter().find(|kind| kind.is_class()).ok_or_else(missing)?;
    let body = plane.get(kind, namespace, name).await?.ok_or_else(missing)?;
    let mut objects = vec![Object { kind: kind.clone(), body }];
    for (version, kind, name) in templates(&objects[0].body.data["spec"]) {
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let Some(kind) = kinds.iter().find(|known| known.is(group, &kind)) else { continue };
        if let Some(body) = plane.get(kind, namespace, &name).await? {
            objects.push(Object { kind: kind.clone(), body });
        }
    }
    Ok(objects)
}

/// API version, kind and name of every `templateRef` in there.
fn templates(value: &Value) -> BTreeSet<(String, String, String)> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| {
                let text = |field: &str| value[field].as_str().map(str::to_owned);
                match (key.as_str(), text("apiVersion"), text("kind"), text("name")) {
                    ("templateRef", Some(version), Some(kind), Some(name)) => [(version, kind, name)].into(),
                    _ => templates(value),
                }
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(templates).collect(),
        _ => BTreeSet::new(),
    }
}

/// What is at the target, by kind, namespace and name.
pub(crate) struct Arrived(HashMap<(String, String, String), DynamicObject>);

impl Arrived {
    /// Reads the kinds of `graph` in the namespaces of `graph`.
    pub(crate) async fn read(plane: &MoveEndpoint, graph: &Graph) -> Result<Self> {
        let mut wanted: Vec<(Arc<MovableKind>, &str)> = Vec::new();
        for node in graph.moving() {
            let known = wanted
                .iter()
                .any(|(kind, namespace)| *kind == node.object.kind && *namespace == node.object.namespace());
            if !known {
                wanted.push((node.object.kind.clone(), node.object.namespace()));
            }
        }
        let lists: Vec<Vec<Object>> = futures::stream::iter(&wanted)
            .map(|(kind, namespace)| plane.list(kind, namespace))
            .buffered(PARALLEL)
            .try_collect()
            .await?;
        Ok(Self(lists.into_iter().flatten().map(|object| (key(&object), object.body)).collect()))
    }

    /// What has the name of this object at the target.
    pub(crate) fn of(&self, object: &Object) -> Option<&DynamicObject> {
        self.0.get(&key(object))
    }

    pub(crate) fn put(&mut self, object: &Object, body: DynamicObject) {
        self.0.insert(key(object), body);
    }

    pub(crate) fn uid_of(&self, object: &Object) -> Option<String> {
        self.of(object).and_then(kube::ResourceExt::uid)
    }
}

/// Without the version: an object is one object in all of them.
fn key(object: &Object) -> (String, String, String) {
    let resource = &object.kind.resource;
    (format!("{}/{}", resource.group, resource.kind), object.namespace().to_owned(), object.name().to_owned())
}
