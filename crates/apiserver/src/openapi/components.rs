//! Schemas and paths of resources, as OpenAPI v3 has them. Both documents are made from these.

use serde_json::{Map, Value, json};

use super::v2_schema;
use crate::{
    object::join_api_version,
    registry::{Below, Resource, Version, Virtual, schema::vendored},
};

/// Begins a reference to a schema.
pub(super) const REFERENCE: &str = "#/components/schemas/";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// What `kubectl explain` says about the fields that all resources have. The other built-in schemas have no descriptions.
const OBJECT_META_FIELDS: [(&str, &str); 15] = [
    ("annotations", "Annotations are texts for tools, by name. They cannot be selected by."),
    (
        "creationTimestamp",
        "CreationTimestamp is a timestamp that the server sets when it creates the object.",
    ),
    (
        "deletionGracePeriodSeconds",
        "DeletionGracePeriodSeconds is the time for an orderly end, set by the server.",
    ),
    (
        "deletionTimestamp",
        "DeletionTimestamp is the time when a client asked for deletion. The object ends with its last finalizer.",
    ),
    ("finalizers", "Finalizers are names of controllers that must act before the object can be removed."),
    ("generateName", "GenerateName is a prefix. The server adds random letters if no name is given."),
    ("generation", "Generation is a number that the server raises whenever the desired state changes."),
    ("labels", "Labels are short texts by name, which selectors can match."),
    (
        "managedFields",
        "ManagedFields are the fields that each client or controller has set, kept by the server.",
    ),
    ("name", "Name is unique among the objects of its kind in a namespace, and never changes."),
    ("namespace", "Namespace is the space in which the name is unique, and never changes."),
    (
        "ownerReferences",
        "OwnerReferences are the objects that this one depends on. It is deleted after the last of them.",
    ),
    (
        "resourceVersion",
        "ResourceVersion identifies this state of the object. A write that sends it fails if the object has changed.",
    ),
    ("selfLink", "SelfLink is not set any more."),
    ("uid", "UID is unique among all objects of all times, and set by the server."),
];

/// For which document the schemas of custom resources are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Edition {
    V2,
    V3,
}

/// Schemas and paths of some resources.
#[derive(Default)]
pub(super) struct Components {
    pub(super) schemas: Map<String, Value>,
    pub(super) paths: Map<String, Value>,
}

impl Components {
    /// Adds a resource in one of its versions, and all schemas that it refers to.
    pub(super) fn add(&mut self, resource: &Resource, version: &Version, edition: Edition) {
        let name = component(resource, version);
        match version.schema.published() {
            Some(schema) => publish_custom(&mut self.schemas, resource, version, &name, schema, edition),
            None => {
                add(&mut self.schemas, &name);
                add(&mut self.schemas, &format!("{name}List"));
            }
        }
        add_paths(&mut self.paths, resource, version, &name);
    }
}

/// The name of a kind in the document.
fn component(resource: &Resource, version: &Version) -> String {
    let gvk = gvk(resource, version);
    let built_in = vendored().iter().find(|(_, schema)| {
        let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
        kinds.is_some_and(|kinds| kinds.contains(&gvk))
    });
    match built_in {
        Some((name, _)) if !resource.is_custom() => name.clone(),
        _ => {
            let reversed: Vec<&str> = resource.name.group().split('.').rev().collect();
            format!("{}.{}.{}", reversed.join("."), version.name, resource.kind)
        }
    }
}

fn gvk(resource: &Resource, version: &Version) -> Value {
    json!({"group": resource.name.group(), "kind": resource.kind, "version": version.name})
}

/// Adds a vendored schema and all it refers to.
fn add(schemas: &mut Map<String, Value>, name: &str) {
    let Some(schema) = vendored().get(name).filter(|_| !schemas.contains_key(name)) else { return };
    let mut described = schema.clone();
    if name == OBJECT_META {
        for (field, description) in OBJECT_META_FIELDS {
            described["properties"][field]["description"] = description.into();
        }
    }
    schemas.insert(name.to_owned(), described);
    let mut references = Vec::new();
    collect(schema, &mut references);
    for reference in references {
        add(schemas, &reference);
    }
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(name) =
                map.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix(REFERENCE))
            {
                references.push(name.to_owned());
            }
            map.values().for_each(|value| collect(value, references));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, references)),
        _ => {}
    }
}

fn publish_custom(
    schemas: &mut Map<String, Value>,
    resource: &Resource,
    version: &Version,
    name: &str,
    schema: &Value,
    edition: Edition,
) {
    add(schemas, OBJECT_META);
    add(schemas, LIST_META);
    let mut object = if edition == Edition::V2 { v2_schema::reduced(schema) } else { schema.clone() };
    let is_described = edition == Edition::V3 || !v2_schema::is_open(schema);
    if is_described {
        describe_extensions(&mut object, edition);
        describe_resource(&mut object);
    }
    object["x-kubernetes-group-version-kind"] = json!([gvk(resource, version)]);
    schemas.insert(name.to_owned(), object);
    let mut list = json!({
        "type": "object", "required": ["items"], "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "properties": {
            "metadata": {"allOf": [{"$ref": format!("{REFERENCE}{LIST_META}")}]},
            "items": {"type": "array", "items": {"$ref": format!("{REFERENCE}{name}")}},
        },
        "x-kubernetes-group-version-kind": [{"group": resource.name.group(), "kind": resource.list_kind, "version": version.name}],
    });
    describe_type(&mut list);
    schemas.insert(format!("{name}List"), list);
}

/// Adds what every resource has.
fn describe_resource(object: &mut Value) {
    describe_type(object);
    object["properties"]["metadata"] = json!({"allOf": [{"$ref": format!("{REFERENCE}{OBJECT_META}")}], "description": "Standard object's metadata."});
}

fn describe_type(object: &mut Value) {
    let string = |description: &str| json!({"type": "string", "description": description});
    object["properties"]["apiVersion"] =
        string("APIVersion defines the versioned schema of this representation of an object.");
    object["properties"]["kind"] = string("Kind is the name of the resource this object represents.");
}

/// Adds the two types that a value may have, where the schema does not name them itself.
fn describe_int_or_string(schema: &mut Value) {
    let types = json!([{"type": "integer"}, {"type": "string"}]);
    let is_named =
        schema.get("anyOf").is_some() || schema.pointer("/allOf/0/anyOf").is_some_and(|any| *any == types);
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) && !is_named {
        schema["anyOf"] = types;
    }
}

/// Adds what every resource has to the schemas of resources within others, and what extensions of a schema mean.
fn describe_extensions(schema: &mut Value, edition: Edition) {
    for within in v2_schema::within(schema) {
        describe_extensions(within, edition);
    }
    if edition == Edition::V3 {
        describe_int_or_string(schema);
    }
    let is_set = |keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
    // kubectl would refuse all other fields.
    let is_open = edition == Edition::V2 && is_set("x-kubernetes-preserve-unknown-fields");
    if is_open || !is_set("x-kubernetes-embedded-resource") {
        return;
    }
    describe_resource(schema);
    let mut required: Vec<Value> =
        schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    for name in ["kind", "apiVersion"] {
        if !required.iter().any(|field| field == name) {
            required.push(name.into());
        }
    }
    schema["required"] = required.into();
}

fn add_paths(paths: &mut Map<String, Value>, resource: &Resource, version: &Version, component: &str) {
    let group = resource.name.group();
    let root = if group.is_empty() {
        "/api/v1".to_owned()
    } else {
        format!("/apis/{}", join_api_version(group, &version.name))
    };
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{root}{scope}/{}", resource.name.resource());
    let kind = gvk(resource, version);
    let operation = |action: &str, parameters: &[&str]| {
        let parameter = |name: &&str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
        let schema = json!({"$ref": format!("{REFERENCE}{component}")});
        let mut operation = json!({
            "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind,
        });
        match action {
            "post" | "put" => {
                operation["requestBody"] = json!({"content": {"*/*": {"schema": schema}}, "required": true});
            }
            "patch" => {
                let any = json!({"schema": {"type": "object"}});
                operation["requestBody"] = json!({"required": true, "content": {
                    "application/apply-patch+yaml": any, "application/json-patch+json": any, "application/merge-patch+json": any,
                }});
            }
            _ => {}
        }
        with_parameters(operation, parameters.iter().map(parameter).collect())
    };
    let write = ["dryRun", "fieldManager", "fieldValidation"];
    let patch = ["dryRun", "fieldManager", "fieldValidation", "force"];
    if resource.virtual_kind == Some(Virtual::ComponentStatus) {
        let object = format!("{collection}/{{name}}");
        let selectors = ["continue", "fieldSelector", "labelSelector", "limit", "resourceVersion"];
        let paths_of = [(collection, operation("list", &selectors)), (object, operation("get", &[]))];
        for (path, get) in paths_of {
            let parameters = in_path(&path);
            paths.insert(path, with_parameters(json!({"get": get}), parameters));
        }
        return;
    }
    if resource.virtual_kind.is_some() {
        let parameters = in_path(&collection);
        paths.insert(collection, with_parameters(json!({"post": operation("post", &write)}), parameters));
        return;
    }
    let list = ["continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "watch"];
    let item = json!({
        "get": operation("list", &list), "post": operation("post", &write),
        "delete": operation("deletecollection", &["dryRun", "labelSelector"]),
    });
    paths.insert(collection.clone(), with_parameters(item, in_path(&collection)));
    let object = format!("{collection}/{{name}}");
    let mut sides = vec![object.clone()];
    if version.status {
        sides.push(format!("{object}/status"));
    }
    sides.extend(version.below.iter().filter_map(|below| match below {
        Below::Subresource(subresource) => Some(format!("{object}/{}", subresource.name)),
        Below::Asked(..) => None,
    }));
    for side in sides {
        let parameters = in_path(&side);
        let item = json!({
            "get": operation("get", &[]), "put": operation("put", &write), "patch": operation("patch", &patch),
            "delete": operation("delete", &["dryRun", "propagationPolicy"]),
        });
        paths.insert(side, with_parameters(item, parameters));
    }
}

/// A path or an operation with its parameters. An empty list is left out: Go's clients would not write it again.
fn with_parameters(mut item: Value, parameters: Vec<Value>) -> Value {
    if !parameters.is_empty() {
        item["parameters"] = parameters.into();
    }
    item
}

/// The parameters that are a part of a path.
fn in_path(path: &str) -> Vec<Value> {
    let names = ["namespace", "name"].into_iter().filter(|name| path.contains(&format!("{{{name}}}")));
    names
        .map(|name| {
            let schema = json!({"type": "string", "uniqueItems": true});
            json!({"name": name, "in": "path", "required": true, "schema": schema})
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_parameters_are_left_out() {
        assert_eq!(with_parameters(json!({"get": {}}), in_path("/apis/a/v1/b")), json!({"get": {}}));
        let named = with_parameters(json!({}), in_path("/apis/a/v1/b/{name}"));
        assert_eq!(named["parameters"][0]["name"], "name");
    }
}
