//! The built-in resources, as a table.

mod access;
mod components;
mod stored;

use std::sync::Arc;

use super::{
    Below, Cell, Column, Conversion, Origin, Resource, Rules, Scale, Schema, Selectable, Subresource,
    Version, Virtual, kinds::cells,
};
use crate::{jsonpath::JsonPath, object, store::GroupResource};

/// A row of the table.
struct BuiltIn {
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    kind: &'static str,
    /// The kind's name in upstream's OpenAPI.
    schema: &'static str,
    /// Further versions that are served, with the names of their schemas. They are converted.
    older: &'static [(&'static str, &'static str)],
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    status: bool,
    scale: bool,
    subresources: &'static [&'static Subresource],
    /// Paths below an object to resources that keep nothing.
    asked: &'static [(&'static str, &'static BuiltIn)],
    virtual_kind: Option<Virtual>,
    /// What clients are warned of.
    deprecated: Option<&'static str>,
    selectable: &'static [&'static str],
    columns: &'static [(&'static str, &'static str, CellOf)],
    rules: &'static Rules,
}

#[derive(Clone, Copy)]
enum CellOf {
    Path(&'static [&'static str]),
    Computed(fn(&serde_json::Value, jiff::Timestamp) -> serde_json::Value),
    /// Like `Computed`, with priority 1: shown by `kubectl get -o wide`.
    Wide(fn(&serde_json::Value, jiff::Timestamp) -> serde_json::Value),
}

const ROW: BuiltIn = BuiltIn {
    group: "",
    version: "v1",
    resource: "",
    kind: "",
    schema: "",
    older: &[],
    short_names: &[],
    categories: &[],
    namespaced: true,
    status: false,
    scale: false,
    subresources: &[],
    asked: &[],
    virtual_kind: None,
    deprecated: None,
    selectable: &[],
    columns: &[],
    rules: &Rules::PLAIN,
};

/// The registry's entries for the table.
pub(super) fn resources() -> Vec<Arc<Resource>> {
    stored::TABLE
        .iter()
        .chain(access::TABLE)
        .chain(components::TABLE)
        .map(|row| Arc::new(row.resource()))
        .collect()
}

impl BuiltIn {
    fn resource(&self) -> Resource {
        let events = self.group == "events.k8s.io";
        let name = GroupResource::new(self.group, self.resource);
        let version = Arc::new(self.version(self.version, self.schema));
        let older = self.older.iter().map(|(name, schema)| Arc::new(self.version(name, schema)));
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Resource {
            stored_as: if events { GroupResource::new("", "events") } else { name.clone() },
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            singular: self.kind.to_lowercase(),
            short_names: owned(self.short_names),
            categories: owned(self.categories),
            namespaced: self.namespaced,
            stored_schema: Arc::clone(&version.schema),
            versions: std::iter::once(version).chain(older).collect(),
            stored_version: if events {
                "v1".to_owned()
            } else {
                object::join_api_version(self.group, self.version)
            },
            conversion: match self.kind {
                "Event" if events => Conversion::Events,
                "HorizontalPodAutoscaler" => Conversion::Autoscalers,
                _ => Conversion::Rename,
            },
            origin: Origin::BuiltIn,
            rules: self.rules,
            virtual_kind: self.virtual_kind,
            name,
        }
    }

    fn version(&self, name: &str, schema: &'static str) -> Version {
        let field = |name: &str| vec!["spec".to_owned(), name.to_owned()];
        Version {
            name: name.to_owned(),
            schema: Arc::new(Schema::built_in(schema)),
            status: self.status,
            scale: self.scale.then(|| Scale {
                spec_replicas: field("replicas"),
                status_replicas: vec!["status".to_owned(), "replicas".to_owned()],
                label_selector: None,
            }),
            below: self.below(),
            columns: self.columns(),
            selectable: self
                .selectable
                .iter()
                .map(|label| {
                    let fields: Vec<&str> = match *label {
                        // Fields of the events group, looked for in the stored form.
                        "reportingController" => vec!["reportingComponent"],
                        "source" => vec!["source", "component"],
                        "status.successful" => vec!["status", "succeeded"],
                        label => label
                            .split('.')
                            .map(|f| if f == "regarding" { "involvedObject" } else { f })
                            .collect(),
                    };
                    Selectable { label: (*label).to_owned(), path: JsonPath::of(&fields) }
                })
                .collect(),
            deprecated: self.deprecated.map(str::to_owned),
        }
    }

    fn below(&self) -> Vec<Below> {
        let asked = self.asked.iter().map(|(name, row)| Below::Asked(name, Arc::new(row.resource())));
        self.subresources.iter().map(|subresource| Below::Subresource(subresource)).chain(asked).collect()
    }

    /// Name first; age last, unless the row places it or does without.
    fn columns(&self) -> Vec<Column> {
        let column = |name: &str, kind: &str, priority: i64, cell| Column {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: if name == "Name" && priority == 0 { "name" } else { "" }.to_owned(),
            description: String::new(),
            priority,
            cell,
        };
        let is_event = self.kind == "Event";
        let mut columns = Vec::new();
        if !is_event {
            columns.push(column("Name", "string", 0, Cell::Path(JsonPath::of(&["metadata", "name"]))));
        }
        for (name, kind, cell) in self.columns {
            let (priority, cell) = match cell {
                CellOf::Path(fields) => (0, Cell::Path(JsonPath::of(fields))),
                CellOf::Computed(function) => (0, Cell::Computed(*function)),
                CellOf::Wide(function) => (1, Cell::Computed(*function)),
            };
            columns.push(column(name, kind, priority, cell));
        }
        let placed = is_event
            || self.virtual_kind.is_some()
            || self.columns.iter().any(|(name, _, _)| ["Age", "Created At"].contains(name));
        if !placed {
            columns.push(column("Age", "string", 0, Cell::Computed(cells::age)));
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use capstan_apiserver_proto as protobuf;

    use crate::{Below, Registry};

    #[test]
    fn every_built_in_kind_has_a_protobuf_form() {
        let has_form = |api_version: &str, kind: &str| {
            assert!(protobuf::Kind::find(api_version, kind).is_some(), "{kind} of {api_version}");
        };
        for resource in Registry::built_in().all() {
            for version in &resource.versions {
                has_form(&resource.api_version(&version.name), &resource.kind);
                has_form(&resource.api_version(&version.name), &resource.list_kind);
                for below in &version.below {
                    if let Below::Asked(_, asked) = below {
                        has_form(&asked.stored_version, &asked.kind);
                    }
                }
            }
        }
        for kind in ["Status", "APIGroup", "APIGroupList", "APIResourceList"] {
            has_form("v1", kind);
        }
        // Which has no version.
        has_form("", "APIVersions");
        for kind in ["PartialObjectMetadata", "PartialObjectMetadataList"] {
            has_form("meta.k8s.io/v1", kind);
            has_form("meta.k8s.io/v1beta1", kind);
        }
    }
}
