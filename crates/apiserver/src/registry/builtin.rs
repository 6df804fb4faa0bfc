//! The built-in resources, as a table.

use std::sync::Arc;

use super::{
    Cell, Column, Conversion, Origin, Resource, Rules, Scale, Schema, Selectable, Version,
    kinds::{self, cells},
};
use crate::{object, store::GroupResource, table::jsonpath::JsonPath};

/// A row of the table.
struct BuiltIn {
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    kind: &'static str,
    /// The kind's name in upstream's OpenAPI.
    schema: &'static str,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    status: bool,
    scale: bool,
    selectable: &'static [&'static str],
    columns: &'static [(&'static str, &'static str, CellOf)],
    rules: &'static Rules,
}

#[derive(Clone, Copy)]
enum CellOf {
    Path(&'static [&'static str]),
    Computed(fn(&serde_json::Value, jiff::Timestamp) -> serde_json::Value),
}

use CellOf::{Computed, Path};

const ROW: BuiltIn = BuiltIn {
    group: "",
    version: "v1",
    resource: "",
    kind: "",
    schema: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
    status: false,
    scale: false,
    selectable: &[],
    columns: &[],
    rules: &Rules::PLAIN,
};

const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

const EVENT_COLUMNS: &[(&str, &str, CellOf)] = &[
    ("Last Seen", "string", Computed(cells::event_last_seen)),
    ("Type", "string", Path(&["type"])),
    ("Reason", "string", Path(&["reason"])),
    ("Object", "string", Computed(cells::event_object)),
    ("Message", "string", Computed(cells::event_message)),
];

const REGARDING_FIELDS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

const TABLE: &[BuiltIn] = &[
    BuiltIn {
        resource: "namespaces",
        kind: "Namespace",
        schema: "io.k8s.api.core.v1.Namespace",
        short_names: &["ns"],
        namespaced: false,
        status: true,
        selectable: &["status.phase"],
        columns: &[("Status", "string", Path(&["status", "phase"]))],
        rules: &kinds::NAMESPACE,
        ..ROW
    },
    BuiltIn {
        resource: "secrets",
        kind: "Secret",
        schema: "io.k8s.api.core.v1.Secret",
        selectable: &["type"],
        columns: &[("Type", "string", Path(&["type"])), ("Data", "integer", Computed(cells::data_count))],
        rules: &kinds::SECRET,
        ..ROW
    },
    BuiltIn {
        resource: "configmaps",
        kind: "ConfigMap",
        schema: "io.k8s.api.core.v1.ConfigMap",
        short_names: &["cm"],
        columns: &[("Data", "integer", Computed(cells::data_count))],
        rules: &kinds::CONFIG_MAP,
        ..ROW
    },
    BuiltIn {
        resource: "events",
        kind: "Event",
        schema: "io.k8s.api.core.v1.Event",
        short_names: &["ev"],
        selectable: EVENT_FIELDS,
        columns: EVENT_COLUMNS,
        rules: &kinds::EVENT,
        ..ROW
    },
    BuiltIn {
        group: "events.k8s.io",
        resource: "events",
        kind: "Event",
        schema: "io.k8s.api.events.v1.Event",
        short_names: &["ev"],
        selectable: REGARDING_FIELDS,
        columns: EVENT_COLUMNS,
        rules: &kinds::EVENT,
        ..ROW
    },
    BuiltIn {
        resource: "serviceaccounts",
        kind: "ServiceAccount",
        schema: "io.k8s.api.core.v1.ServiceAccount",
        short_names: &["sa"],
        ..ROW
    },
    BuiltIn {
        resource: "nodes",
        kind: "Node",
        schema: "io.k8s.api.core.v1.Node",
        short_names: &["no"],
        namespaced: false,
        status: true,
        selectable: &["spec.unschedulable"],
        columns: &[
            ("Status", "string", Computed(cells::node_status)),
            ("Roles", "string", Computed(cells::node_roles)),
            ("Age", "string", Computed(cells::age)),
            ("Version", "string", Path(&["status", "nodeInfo", "kubeletVersion"])),
        ],
        rules: &kinds::NODE,
        ..ROW
    },
    BuiltIn {
        resource: "pods",
        kind: "Pod",
        schema: "io.k8s.api.core.v1.Pod",
        short_names: &["po"],
        categories: &["all"],
        status: true,
        selectable: &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
        ],
        columns: &[
            ("Ready", "string", Computed(cells::pod_ready)),
            ("Status", "string", Computed(cells::pod_status)),
            ("Restarts", "string", Computed(cells::pod_restarts)),
        ],
        rules: &kinds::POD,
        ..ROW
    },
    BuiltIn {
        resource: "services",
        kind: "Service",
        schema: "io.k8s.api.core.v1.Service",
        short_names: &["svc"],
        categories: &["all"],
        status: true,
        selectable: &["spec.clusterIP", "spec.type"],
        columns: &[
            ("Type", "string", Path(&["spec", "type"])),
            ("Cluster-IP", "string", Path(&["spec", "clusterIP"])),
        ],
        rules: &kinds::SERVICE,
        ..ROW
    },
    BuiltIn {
        resource: "endpoints",
        kind: "Endpoints",
        schema: "io.k8s.api.core.v1.Endpoints",
        short_names: &["ep"],
        rules: &kinds::CREATED_ON_UPDATE,
        ..ROW
    },
    BuiltIn {
        group: "coordination.k8s.io",
        resource: "leases",
        kind: "Lease",
        schema: "io.k8s.api.coordination.v1.Lease",
        columns: &[("Holder", "string", Path(&["spec", "holderIdentity"]))],
        rules: &kinds::CREATED_ON_UPDATE,
        ..ROW
    },
    BuiltIn {
        group: "rbac.authorization.k8s.io",
        resource: "roles",
        kind: "Role",
        schema: "io.k8s.api.rbac.v1.Role",
        rules: &kinds::ROLE,
        ..ROW
    },
    BuiltIn {
        group: "rbac.authorization.k8s.io",
        resource: "rolebindings",
        kind: "RoleBinding",
        schema: "io.k8s.api.rbac.v1.RoleBinding",
        columns: &[("Role", "string", Computed(cells::role_ref))],
        rules: &kinds::ROLE_BINDING,
        ..ROW
    },
    BuiltIn {
        group: "rbac.authorization.k8s.io",
        resource: "clusterroles",
        kind: "ClusterRole",
        schema: "io.k8s.api.rbac.v1.ClusterRole",
        namespaced: false,
        rules: &kinds::ROLE,
        ..ROW
    },
    BuiltIn {
        group: "rbac.authorization.k8s.io",
        resource: "clusterrolebindings",
        kind: "ClusterRoleBinding",
        schema: "io.k8s.api.rbac.v1.ClusterRoleBinding",
        namespaced: false,
        columns: &[("Role", "string", Computed(cells::role_ref))],
        rules: &kinds::ROLE_BINDING,
        ..ROW
    },
    BuiltIn {
        group: "apiextensions.k8s.io",
        resource: "customresourcedefinitions",
        kind: "CustomResourceDefinition",
        schema: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        namespaced: false,
        status: true,
        // A time, not an age.
        columns: &[("Created At", "string", Path(&["metadata", "creationTimestamp"]))],
        rules: &kinds::CUSTOM_RESOURCE_DEFINITION,
        ..ROW
    },
    BuiltIn {
        group: "apps",
        resource: "deployments",
        kind: "Deployment",
        schema: "io.k8s.api.apps.v1.Deployment",
        short_names: &["deploy"],
        categories: &["all"],
        status: true,
        scale: true,
        columns: &[
            ("Ready", "string", Computed(cells::deployment_ready)),
            ("Up-to-date", "integer", Path(&["status", "updatedReplicas"])),
            ("Available", "integer", Path(&["status", "availableReplicas"])),
        ],
        rules: &kinds::WORKLOAD,
        ..ROW
    },
    BuiltIn {
        group: "apps",
        resource: "daemonsets",
        kind: "DaemonSet",
        schema: "io.k8s.api.apps.v1.DaemonSet",
        short_names: &["ds"],
        categories: &["all"],
        status: true,
        columns: &[
            ("Desired", "integer", Path(&["status", "desiredNumberScheduled"])),
            ("Ready", "integer", Path(&["status", "numberReady"])),
        ],
        rules: &kinds::WORKLOAD,
        ..ROW
    },
    BuiltIn {
        group: "policy",
        resource: "poddisruptionbudgets",
        kind: "PodDisruptionBudget",
        schema: "io.k8s.api.policy.v1.PodDisruptionBudget",
        short_names: &["pdb"],
        status: true,
        columns: &[
            ("Min Available", "string", Path(&["spec", "minAvailable"])),
            ("Max Unavailable", "string", Path(&["spec", "maxUnavailable"])),
        ],
        rules: &kinds::WITH_GENERATION,
        ..ROW
    },
    BuiltIn {
        group: "storage.k8s.io",
        resource: "volumeattachments",
        kind: "VolumeAttachment",
        schema: "io.k8s.api.storage.v1.VolumeAttachment",
        namespaced: false,
        status: true,
        columns: &[
            ("Attacher", "string", Path(&["spec", "attacher"])),
            ("PV", "string", Path(&["spec", "source", "persistentVolumeName"])),
            ("Node", "string", Path(&["spec", "nodeName"])),
            ("Attached", "boolean", Path(&["status", "attached"])),
        ],
        ..ROW
    },
];

/// The registry's entries for the table.
pub(super) fn resources() -> Vec<Arc<Resource>> {
    TABLE.iter().map(|row| Arc::new(row.resource())).collect()
}

impl BuiltIn {
    fn resource(&self) -> Resource {
        let events = self.group == "events.k8s.io";
        let name = GroupResource::new(self.group, self.resource);
        let version = Arc::new(self.version());
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
            versions: vec![version],
            stored_version: if events {
                "v1".to_owned()
            } else {
                object::join_api_version(self.group, self.version)
            },
            conversion: if events { Conversion::Events } else { Conversion::Rename },
            origin: Origin::BuiltIn,
            rules: self.rules,
            name,
        }
    }

    fn version(&self) -> Version {
        let field = |name: &str| vec!["spec".to_owned(), name.to_owned()];
        Version {
            name: self.version.to_owned(),
            schema: Arc::new(Schema::built_in(self.schema)),
            status: self.status,
            scale: self.scale.then(|| Scale {
                spec_replicas: field("replicas"),
                status_replicas: vec!["status".to_owned(), "replicas".to_owned()],
                label_selector: None,
            }),
            columns: self.columns(),
            selectable: self
                .selectable
                .iter()
                .map(|label| {
                    let fields: Vec<&str> = match *label {
                        // Fields of the events group, looked for in the stored form.
                        "reportingController" => vec!["reportingComponent"],
                        "source" => vec!["source", "component"],
                        label => label
                            .split('.')
                            .map(|f| if f == "regarding" { "involvedObject" } else { f })
                            .collect(),
                    };
                    Selectable { label: (*label).to_owned(), path: JsonPath::of(&fields) }
                })
                .collect(),
            deprecated: None,
        }
    }

    /// Name first; age last, unless the row places it or does without.
    fn columns(&self) -> Vec<Column> {
        let column = |name: &str, kind: &str, format: &str, cell| Column {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: format.to_owned(),
            description: String::new(),
            priority: 0,
            cell,
        };
        let is_event = self.kind == "Event";
        let mut columns = Vec::new();
        if !is_event {
            columns.push(column("Name", "string", "name", Cell::Path(JsonPath::of(&["metadata", "name"]))));
        }
        for (name, kind, cell) in self.columns {
            let cell = match cell {
                Path(fields) => Cell::Path(JsonPath::of(fields)),
                Computed(function) => Cell::Computed(*function),
            };
            columns.push(column(name, kind, "", cell));
        }
        let placed = is_event || self.columns.iter().any(|(name, _, _)| ["Age", "Created At"].contains(name));
        if !placed {
            columns.push(column("Age", "string", "", Cell::Computed(cells::age)));
        }
        columns
    }
}
