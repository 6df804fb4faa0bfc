//! Which resources the API server serves. An entry is data: names, versions, schemas, columns, and a few functions for
//! what no schema can say. CRDs add entries at run time; readers hold a snapshot that does not change.
//!
//! What lives here beside the entries: what both entries and requests need to know about values (names, quantities, selectors,
//! match criteria, roles), about webhooks and admission policies as they are described, and errors as clients see them.
//!
//! What must not live here: HTTP, connections, the way of a request. Rules get a narrow context ([`Env`], [`Writer`]).

pub mod age;
mod builtin;
pub mod certificates;
mod crd;
mod crd_validation;
pub mod custom;
pub mod jsonpath;
pub mod kinds;
pub mod match_criteria;
pub mod names;
pub mod policy;
pub mod quantity;
pub mod rbac;
mod rules;
pub mod schema;
pub mod selector;
pub mod status;
mod typed;
pub mod user;
pub mod webhook;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use capstan_apiserver_store::{self as store, object};
use capstan_text::api_version;
use jiff::Timestamp;
use serde_json::Value;

pub use rules::{Authorizer, Env, Rules, Side, Subresource, Virtual, Writer};
pub use schema::Schema;

use jsonpath::JsonPath;
use store::{GroupResource, Key};
use webhook::conversion::Converter;

/// One resource, whatever serves it.
pub struct Resource {
    /// As it is asked for.
    pub name: GroupResource,
    /// As it is stored: two groups may show the same objects.
    pub stored_as: GroupResource,
    /// The kind of its objects.
    pub kind: String,
    /// The kind of a list of them.
    pub list_kind: String,
    /// The singular of its name.
    pub singular: String,
    /// Short names for `kubectl`.
    pub short_names: Vec<String>,
    /// Categories for `kubectl`, such as `all`.
    pub categories: Vec<String>,
    /// Whether each object is in a namespace.
    pub namespaced: bool,
    /// Those that are served, the preferred one first.
    pub versions: Vec<Arc<Version>>,
    /// The `apiVersion` objects are stored under.
    pub stored_version: String,
    /// Its schema: what another version holds beyond it is not kept.
    pub stored_schema: Arc<Schema>,
    /// How objects are turned from one version into another.
    pub conversion: Conversion,
    /// The definition of the resource.
    pub origin: Origin,
    /// Behaviour that no schema can express.
    pub rules: &'static Rules,
    /// Set if the resource stores nothing.
    pub virtual_kind: Option<Virtual>,
}

/// One served version of a resource.
pub struct Version {
    /// Such as `v1`.
    pub name: String,
    /// The schema of its objects.
    pub schema: Arc<Schema>,
    /// Whether the status is a subresource.
    pub status: bool,
    /// Where the scale is, if it is a subresource.
    pub scale: Option<Scale>,
    /// Further paths below an object.
    pub below: Vec<Below>,
    /// Columns of tables.
    pub columns: Vec<Column>,
    /// What field selectors may ask for, beside name and namespace.
    pub selectable: Vec<Selectable>,
    /// What clients are warned of, if the version is deprecated; may be empty.
    pub deprecated: Option<String>,
}

/// A path below an object.
pub enum Below {
    /// Changes a part of the object.
    Subresource(&'static Subresource),
    /// A virtual resource of the object: name and entry.
    Asked(&'static str, Arc<Resource>),
}

impl Below {
    /// The last segment of the path.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Subresource(subresource) => subresource.name,
            Self::Asked(name, _) => name,
        }
    }
}

/// A field that a selector may name.
pub struct Selectable {
    /// The name in a selector.
    pub label: String,
    /// Where the field is in an object.
    pub path: JsonPath,
}

/// Where a resource keeps its scale.
pub struct Scale {
    /// Path of the number of replicas in the spec.
    pub spec_replicas: Vec<String>,
    /// Path of the number of replicas in the status.
    pub status_replicas: Vec<String>,
    /// Path of the label selector as text.
    pub label_selector: Option<Vec<String>>,
}

/// How an object is turned from one version into another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversion {
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
pub enum Origin {
    /// The server itself.
    BuiltIn,
    /// A CRD.
    Custom {
        /// The CRD.
        key: Key,
        /// Objects written after this revision have been defaulted by the CRD as it is now.
        revision: u64,
    },
}

/// One column of a table.
pub struct Column {
    /// The heading.
    pub name: String,
    /// The type of a cell in OpenAPI.
    pub kind: String,
    /// The format of a cell in OpenAPI.
    pub format: String,
    /// What the column shows.
    pub description: String,
    /// 0 for columns that are always shown.
    pub priority: i64,
    /// Where a cell comes from.
    pub cell: Cell,
}

/// Where a cell comes from.
pub enum Cell {
    /// From a field.
    Path(JsonPath),
    /// From an object and the present time.
    Computed(fn(&Value, Timestamp) -> Value),
}

impl Resource {
    /// A served version.
    pub fn version(&self, name: &str) -> Option<&Arc<Version>> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The `apiVersion` of objects in a version.
    pub fn api_version(&self, version: &str) -> String {
        object::join_api_version(self.name.group(), version)
    }

    /// Where an object is stored.
    pub fn key(&self, namespace: &str, name: &str) -> Key {
        Key::new(self.stored_as.clone(), if self.namespaced { namespace } else { "" }, name)
    }

    /// Whether a CRD defines it.
    pub fn is_custom(&self) -> bool {
        matches!(self.origin, Origin::Custom { .. })
    }
}

/// All resources at one moment.
#[derive(Default)]
pub struct Registry {
    resources: BTreeMap<(String, String), Arc<Resource>>,
    /// Differs for any two states of the registry of a server, and increases.
    pub generation: u64,
}

impl Registry {
    /// The built-in resources.
    pub fn built_in() -> Self {
        static RESOURCES: OnceLock<Vec<Arc<Resource>>> = OnceLock::new();
        let mut registry = Self::default();
        for resource in RESOURCES.get_or_init(builtin::resources) {
            registry.insert(Arc::clone(resource));
        }
        registry
    }

    /// The same with one resource more, or another definition of it.
    pub fn with(&self, resource: Arc<Resource>) -> Self {
        let mut next = self.next();
        next.insert(resource);
        next
    }

    /// The same without a resource.
    pub fn without(&self, name: &GroupResource) -> Self {
        let mut next = self.next();
        next.resources.remove(&(name.group().to_owned(), name.resource().to_owned()));
        next
    }

    fn next(&self) -> Self {
        let resources = self.resources.clone();
        Self { resources, generation: self.generation + 1 }
    }

    fn insert(&mut self, resource: Arc<Resource>) {
        let key = (resource.name.group().to_owned(), resource.name.resource().to_owned());
        self.resources.insert(key, resource);
    }

    /// A resource, by group and plural.
    pub fn get(&self, group: &str, resource: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.to_owned(), resource.to_owned()))
    }

    /// A resource, by group and kind.
    pub fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.in_group(group).find(|resource| resource.kind == kind)
    }

    /// All resources, sorted by group and name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// The resources of a group, sorted by name.
    pub fn in_group<'a>(&'a self, group: &str) -> impl Iterator<Item = &'a Arc<Resource>> {
        let start = (group.to_owned(), String::new());
        let group = group.to_owned();
        self.resources.range(start..).take_while(move |((g, _), _)| *g == group).map(|(_, resource)| resource)
    }

    /// Every group with its versions, the preferred one first.
    pub fn groups(&self) -> BTreeMap<String, Vec<String>> {
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
