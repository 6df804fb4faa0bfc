//! The objects that belong to a move. Pure.
//!
//! An object moves with its owner, from the roots on: Clusters, ClusterClasses, ClusterResourceSets, and every kind or
//! object with the move label. Some owners are known without an owner reference: a Secret by its name or because an
//! object names it, a Cluster by its class, a binding by its Cluster.

use capstan_api::meta::labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

use crate::kinds::MovableKind;

/// The ends of names of Secrets that belong to the Cluster whose name stands before.
const PURPOSES: [&str; 6] = ["kubeconfig", "ca", "etcd", "sa", "proxy", "apiserver-etcd-client"];

/// An object as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) kind: Arc<MovableKind>,
    pub(crate) body: DynamicObject,
}

impl Object {
    pub(crate) fn namespace(&self) -> &str {
        self.body.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        self.body.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        self.body.metadata.uid.as_deref().unwrap_or_default()
    }

    /// `Machine default/web-0`.
    pub(crate) fn title(&self) -> String {
        let kind = &self.kind.resource.kind;
        match self.namespace() {
            "" => format!("{kind} {}", self.name()),
            namespace => format!("{kind} {namespace}/{}", self.name()),
        }
    }

    fn has_label(&self, key: &str) -> bool {
        self.body.labels().contains_key(key)
    }
}

/// An object among others.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) object: Object,
    /// Its owners that were read too, by place.
    pub(crate) owners: Vec<(usize, OwnerReference)>,
    /// Who it goes with, without an owner reference.
    pub(crate) soft_owners: Vec<usize>,
    /// It is part of the move.
    pub(crate) moves: bool,
    /// It is not of a namespace, or below something that is not: made where it is missing, else left alone.
    pub(crate) shared: bool,
    /// Others at the source need it: it is copied, not deleted.
    pub(crate) stays: bool,
}

impl Node {
    fn is_root(&self) -> bool {
        self.object.kind.with_dependents || self.object.has_label(labels::CLUSTERCTL_MOVE_HIERARCHY)
    }

    /// Whether somebody would reconcile it on its own, and so must be told to rest: what is below a Cluster rests with it.
    pub(crate) fn rests_by_itself(&self) -> bool {
        self.moves
            && !self.shared
            && !self.object.kind.is_built_in()
            && (self.object.kind.moves || self.is_root())
    }
}

/// All objects that were read, with what ties them together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
}

impl Graph {
    /// `namespace` is the one that is moved; `classes_of_others` are the classes, by namespace and name, that Clusters
    /// of other namespaces are made from.
    pub(crate) fn new(objects: Vec<Object>, namespace: &str, classes_of_others: &[(String, String)]) -> Self {
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut nodes: Vec<Node> = Vec::new();
        for object in objects {
            // What was read twice, as a Secret of a provider's namespace may be, is there once.
            if !object.uid().is_empty() && places.contains_key(object.uid()) {
                continue;
            }
            places.insert(object.uid().to_owned(), nodes.len());
            nodes.push(Node {
                object,
                owners: Vec::new(),
                soft_owners: Vec::new(),
                moves: false,
                shared: false,
                stays: false,
            });
        }
        for node in &mut nodes {
            let owners = node.object.body.owner_references();
            node.owners =
                owners.iter().filter_map(|owner| Some((*places.get(&owner.uid)?, owner.clone()))).collect();
        }
        let mut graph = Self { nodes };
        graph.add_soft_owners();
        graph.spread();
        graph.keep(namespace, classes_of_others);
        graph
    }

    /// The nodes that move.
    pub(crate) fn moving(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.moves)
    }

    fn add_soft_owners(&mut self) {
        let mut named: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
        let mut heads: Vec<usize> = Vec::new();
        for (place, node) in self.nodes.iter().enumerate() {
            let object = &node.object;
            if !object.kind.is_built_in() {
                for name in secrets_named(&object.body.data) {
                    named.entry((object.namespace(), name)).or_default().push(place);
                }
            }
            if object.kind.is_cluster() || object.kind.is_class() {
                heads.push(place);
            }
        }
        let mut found: Vec<(usize, Vec<usize>)> = Vec::new();
        for (place, node) in self.nodes.iter().enumerate() {
            let object = &node.object;
            let goes_with = |head: &usize| is_soft_owner(&self.nodes[*head].object, object);
            let mut owners: Vec<usize> = heads.iter().copied().filter(goes_with).collect();
            if object.kind.is_secret() {
                owners.extend(named.get(&(object.namespace(), object.name())).into_iter().flatten());
            }
            found.push((place, owners));
        }
        for (place, owners) in found {
            self.nodes[place].soft_owners = owners;
        }
    }

    /// From each root down.
    fn spread(&mut self) {
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (place, node) in self.nodes.iter().enumerate() {
            for owner in node.owners.iter().map(|(owner, _)| *owner).chain(node.soft_owners.iter().copied()) {
                below[owner].push(place);
            }
        }
        for root in 0..self.nodes.len() {
            let node = &mut self.nodes[root];
            node.moves |= node.object.kind.moves || node.object.has_label(labels::CLUSTERCTL_MOVE);
            let is_global = !node.object.kind.namespaced;
            node.shared |= is_global && node.moves;
            if !node.is_root() {
                continue;
            }
            let mut seen = vec![false; self.nodes.len()];
            let mut next = vec![root];
            while let Some(place) = next.pop() {
                if std::mem::replace(&mut seen[place], true) {
                    continue;
                }
                self.nodes[place].moves = true;
                self.nodes[place].shared |= is_global;
                next.extend(&below[place]);
            }
        }
    }

    /// Classes that somebody else needs, and the templates they own, are not deleted.
    fn keep(&mut self, namespace: &str, classes_of_others: &[(String, String)]) {
        let is_needed = |object: &Object| {
            object.kind.is_class()
                && (object.namespace() != namespace
                    || classes_of_others
                        .iter()
                        .any(|(of, name)| of == object.namespace() && name == object.name()))
        };
        let mut next: Vec<usize> =
            (0..self.nodes.len()).filter(|place| is_needed(&self.nodes[*place].object)).collect();
        while let Some(place) = next.pop() {
            if std::mem::replace(&mut self.nodes[place].stays, true) {
                continue;
            }
            let owned = self.nodes.iter().enumerate();
            next.extend(
                owned
                    .filter(|(_, node)| node.owners.iter().any(|(owner, _)| *owner == place))
                    .map(|(owned, _)| owned),
            );
        }
    }
}

/// Whether `object` goes with `head`, a Cluster or a class, although no owner reference says so.
fn is_soft_owner(head: &Object, object: &Object) -> bool {
    if head.kind.is_class() {
        let is_class =
            |(namespace, name): (String, String)| namespace == head.namespace() && name == head.name();
        return object.kind.is_cluster() && class_of(object).is_some_and(is_class);
    }
    if head.namespace() != object.namespace() {
        return false;
    }
    let is_binding = || object.kind.is("addons.cluster.x-k8s.io", "ClusterResourceSetBinding");
    match object.kind.is_secret() {
        true => object.body.owner_references().is_empty() && is_named_after(object.name(), head.name()),
        false => is_binding() && object.body.data["spec"]["clusterName"] == head.name(),
    }
}

/// Namespace and name of the class that a Cluster is made from.
pub(crate) fn class_of(cluster: &Object) -> Option<(String, String)> {
    let class = &cluster.body.data["spec"]["topology"]["classRef"];
    let name = class["name"].as_str()?;
    let namespace = class["namespace"].as_str().filter(|text| !text.is_empty());
    Some((namespace.unwrap_or(cluster.namespace()).to_owned(), name.to_owned()))
}

fn is_named_after(secret: &str, cluster: &str) -> bool {
    secret
        .strip_prefix(cluster)
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(|purpose| PURPOSES.contains(&purpose))
}

/// The Secrets that an object cannot do without: the credential of a host, and what files on machines are made from.
fn secrets_named(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| {
                let named = match key.as_str() {
                    "credentialsRef" => value["name"].as_str(),
                    "contentFrom" => value["secret"]["name"].as_str(),
                    _ => None,
                };
                named.into_iter().chain(secrets_named(value))
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(secrets_named).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
