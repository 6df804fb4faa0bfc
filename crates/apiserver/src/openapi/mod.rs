//! OpenAPI v3: an index, and a document for each group and version. Enough for kubectl to validate, to
//! explain, and to see that patches may be validated by the server.

pub(crate) mod v2;

use std::sync::PoisonError;

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::{
    discovery::served,
    object::join_api_version,
    registry::{Below, Registry, Resource, Version, schema::vendored},
    request::{Query, negotiate::Format},
    respond::{self, Body},
    status::{ApiError, Result},
};

const REFERENCE: &str = "#/components/schemas/";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// Answers a path under `/openapi/v3`.
pub(crate) fn answer(
    registry: &Registry,
    server: &str,
    path: &str,
    _query: &Query,
) -> Result<Response<Body>> {
    if path.is_empty() {
        return Ok(respond::value(StatusCode::OK, &index(registry), Format::Json));
    }
    let cached = registry.documents.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
    if let Some(document) = cached {
        return Ok(respond::bytes(StatusCode::OK, "application/json", document));
    }
    let parts: Vec<&str> = path.split('/').collect();
    let (group, version) = match parts.as_slice() {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return Err(ApiError::no_such_path()),
    };
    let document = bytes::Bytes::from(document(registry, server, group, version)?.to_string());
    let mut documents = registry.documents.lock().unwrap_or_else(PoisonError::into_inner);
    documents.insert(path.to_owned(), document.clone());
    Ok(respond::bytes(StatusCode::OK, "application/json", document))
}

fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (group, versions) in registry.groups() {
        for version in versions {
            let path =
                if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            // A document changes only with the registry; clients that see the same hash keep theirs.
            let url = format!("/openapi/v3/{path}?hash={:016X}", registry.generation);
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

fn document(registry: &Registry, server: &str, group: &str, version: &str) -> Result<Value> {
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for (resource, version) in served(registry, group, version) {
        let name = component(resource, version);
        match version.schema.published() {
            Some(schema) => publish_custom(&mut schemas, resource, version, &name, schema),
            None => {
                add(&mut schemas, &name);
                add(&mut schemas, &format!("{name}List"));
            }
        }
        add_paths(&mut paths, resource, version, &name);
    }
    if paths.is_empty() {
        return Err(ApiError::no_such_path());
    }
    Ok(json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": server},
        "paths": paths, "components": {"schemas": schemas},
    }))
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
    schemas.insert(name.to_owned(), schema.clone());
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
) {
    add(schemas, OBJECT_META);
    add(schemas, LIST_META);
    let string = |description: &str| json!({"type": "string", "description": description});
    let mut object = schema.clone();
    object["properties"]["apiVersion"] =
        string("APIVersion defines the versioned schema of this representation of an object.");
    object["properties"]["kind"] = string("Kind is the name of the resource this object represents.");
    object["properties"]["metadata"] = json!({"allOf": [{"$ref": format!("{REFERENCE}{OBJECT_META}")}], "description": "Standard object's metadata."});
    object["x-kubernetes-group-version-kind"] = json!([gvk(resource, version)]);
    schemas.insert(name.to_owned(), object);
    let list = json!({
        "type": "object", "required": ["items"], "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "properties": {
            "apiVersion": string("APIVersion defines the versioned schema of this representation of an object."),
            "kind": string("Kind is the name of the resource this object represents."),
            "metadata": {"allOf": [{"$ref": format!("{REFERENCE}{LIST_META}")}]},
            "items": {"type": "array", "items": {"allOf": [{"$ref": format!("{REFERENCE}{name}")}]}},
        },
        "x-kubernetes-group-version-kind": [{"group": resource.name.group(), "kind": resource.list_kind, "version": version.name}],
    });
    schemas.insert(format!("{name}List"), list);
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
            "parameters": parameters.iter().map(parameter).collect::<Vec<_>>(),
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
        operation
    };
    let write = ["dryRun", "fieldManager", "fieldValidation"];
    let patch = ["dryRun", "fieldManager", "fieldValidation", "force"];
    if resource.virtual_kind.is_some() {
        paths.insert(collection, json!({"post": operation("post", &write)}));
        return;
    }
    let list = ["continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "watch"];
    paths.insert(
        collection.clone(),
        json!({
            "get": operation("list", &list), "post": operation("post", &write),
            "delete": operation("deletecollection", &["dryRun", "labelSelector"]),
        }),
    );
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
        paths.insert(side, json!({
            "get": operation("get", &[]), "put": operation("put", &write), "patch": operation("patch", &patch),
            "delete": operation("delete", &["dryRun", "propagationPolicy"]),
        }));
    }
}
