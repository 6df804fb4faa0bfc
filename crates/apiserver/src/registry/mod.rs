//! Which resources there are. An entry is data: names, versions, schemas, columns, and a few functions for
//! what no schema can say. CRDs add entries at run time; readers hold a snapshot that does not change.

mod builtin;
mod crd;
mod crd_validation;
pub(crate) mod custom;
pub(crate) mod kinds;
mod rules;
pub(crate) mod schema;
mod typed;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use capstan_text::api_version;
use jiff::Timestamp;
use serde_json::Value;

pub(crate) use rules::{Env, Rules, Side, Subresource, Virtual, Writer};
pub(crate) use schema::Schema;

use crate::{
    jsonpath::JsonPath,
    object,
    store::{GroupResource, Key},
    webhook::conversion::Converter,
};

/// One resource, whatever serves it.
pub(crate) struct Resource {
    /// As it is asked for.
    pub(crate) name: GroupResource,
    /// As it is stored: two groups may show the same objects.
    pub(crate) stored_as: GroupResource,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// Those that are served, the preferred one first.
    pub(crate) versions: Vec<Arc<Version>>,
    /// The `apiVersion` objects are stored under.
    pub(crate) stored_version: String,
    /// Its schema: what another version holds beyond it is not kept.
    pub(crate) stored_schema: Arc<Schema>,
    pub(crate) conversion: Conversion,
    pub(crate) origin: Origin,
    pub(crate) rules: &'static Rules,
    /// Set if the resource stores nothing.
    pub(crate) virtual_kind: Option<Virtual>,
}

/// One served version of a resource.
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) schema: Arc<Schema>,
    pub(crate) status: bool,
    pub(crate) scale: Option<Scale>,
    /// Further paths below an object.
    pub(crate) below: Vec<Below>,
    pub(crate) columns: Vec<Column>,
    /// What field selectors may ask for, beside name and namespace.
    pub(crate) selectable: Vec<Selectable>,
    pub(crate) deprecated: Option<String>,
}

/// A path below an object.
pub(crate) enum Below {
    /// Changes a part of the object.
    Subresource(&'static Subresource),
    /// A virtual resource of the object: name and entry.
    Asked(&'static str, Arc<Resource>),
}

impl Below {
    /// The last segment of the path.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Subresource(subresource) => subresource.name,
            Self::Asked(name, _) => name,
        }
    }
}

/// A field that a selector may name.
pub(crate) struct Selectable {
    pub(crate) label: String,
    pub(crate) path: JsonPath,
}

/// Where a custom resource keeps its scale.
pub(crate) struct Scale {
    pub(crate) spec_replicas: Vec<String>,
    pub(crate) status_replicas: Vec<String>,
    pub(crate) label_selector: Option<Vec<String>>,
}

/// How an object is turned from one version into another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Only the `apiVersion` differs.
    Rename,
    /// Core events shown as those of `events.k8s.io`.
    Events,
    /// Autoscalers in their two versions.
    Autoscalers,
    /// A conversion webhook.
    Webhook(Box<Converter>),
}

/// Who defines a resource.
pub(crate) enum Origin {
    BuiltIn,
    Custom {
        /// The CRD.
        key: Key,
        /// Objects written after this revision have been defaulted by the CRD as it is now.
        revision: u64,
    },
}

/// One column of a table.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    pub(crate) cell: Cell,
}

/// Where a cell comes from.
pub(crate) enum Cell {
    Path(JsonPath),
    Computed(fn(&Value, Timestamp) -> Value),
}

impl Resource {
    pub(crate) fn version(&self, name: &str) -> Option<&Arc<Version>> {
        self.versions.iter().find(|version| version.name == name)
    }

    pub(crate) fn api_version(&self, version: &str) -> String {
        object::join_api_version(self.name.group(), version)
    }

    pub(crate) fn key(&self, namespace: &str, name: &str) -> Key {
        Key::new(self.stored_as.clone(), if self.namespaced { namespace } else { "" }, name)
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.origin, Origin::Custom { .. })
    }
}

/// A document about all or some resources, as clients get it.
#[derive(Clone)]
pub(crate) struct Document {
    pub(crate) body: bytes::Bytes,
    /// Differs from that of every other content. With its quotes.
    pub(crate) etag: String,
}

/// All resources at one moment.
#[derive(Default)]
pub(crate) struct Registry {
    resources: BTreeMap<(String, String), Arc<Resource>>,
    /// Made on demand; see [`crate::openapi`].
    pub(crate) documents: std::sync::Mutex<BTreeMap<String, Document>>,
    /// A word for the state of each group and version, for ETags and hashes.
    pub(crate) generation: u64,
}

impl Registry {
    /// The built-in resources.
    pub(crate) fn built_in() -> Self {
        static RESOURCES: OnceLock<Vec<Arc<Resource>>> = OnceLock::new();
        let mut registry = Self::default();
        for resource in RESOURCES.get_or_init(builtin::resources) {
            registry.insert(Arc::clone(resource));
        }
        registry
    }

    /// The same with one resource more, or another definition of it.
    pub(crate) fn with(&self, resource: Arc<Resource>) -> Self {
        let mut next = self.next();
        next.insert(resource);
        next
    }

    /// The same without a resource.
    pub(crate) fn without(&self, name: &GroupResource) -> Self {
        let mut next = self.next();
        next.resources.remove(&(name.group().to_owned(), name.resource().to_owned()));
        next
    }

    fn next(&self) -> Self {
        let resources = self.resources.clone();
        Self { resources, generation: self.generation + 1, ..Self::default() }
    }

    fn insert(&mut self, resource: Arc<Resource>) {
        let key = (resource.name.group().to_owned(), resource.name.resource().to_owned());
        self.resources.insert(key, resource);
    }

    pub(crate) fn get(&self, group: &str, resource: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.to_owned(), resource.to_owned()))
    }

    pub(crate) fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.in_group(group).find(|resource| resource.kind == kind)
    }

    /// By group and name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    pub(crate) fn in_group<'a>(&'a self, group: &str) -> impl Iterator<Item = &'a Arc<Resource>> {
        let start = (group.to_owned(), String::new());
        let group = group.to_owned();
        self.resources.range(start..).take_while(move |((g, _), _)| *g == group).map(|(_, resource)| resource)
    }

    /// Every group with its versions, the preferred one first.
    pub(crate) fn groups(&self) -> BTreeMap<String, Vec<String>> {
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for resource in self.all() {
            let versions = groups.entry(resource.name.group().to_owned()).or_default();
            for version in &resource.versions {
                if !versions.contains(&version.name) {
                    versions.push(version.name.clone());
                }
            }
        }
        groups.retain(|_, versions| !versions.is_empty());
        for versions in groups.values_mut() {
            versions.sort_by(|a, b| api_version::compare(a, b));
        }
        groups
    }
}
