//! Discovery: which groups, versions and resources there are, in the old form and in the aggregated one.

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    object::join_api_version,
    registry::{Below, Registry, Resource, Version, Virtual},
    request::negotiate::{Form, Format, Offer, Output},
    respond::{self, Body},
    status::{ApiError, Result},
};

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Of resources that keep nothing.
const ANSWER_VERBS: [&str; 1] = ["create"];
/// Of resources that keep nothing and can be read.
const READ_VERBS: [&str; 2] = ["get", "list"];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Answers a path under `/api` or `/apis`.
pub(crate) fn answer(registry: &Registry, parts: &[&str], headers: &HeaderMap) -> Result<Response<Body>> {
    let root = matches!(parts, ["api" | "apis"]);
    let forms: &[Form] = if root { &[Form::Object, Form::Discovery] } else { &[Form::Object] };
    let output = Output::negotiate(headers, Offer { forms, protobuf: true })?;
    let core = parts.first() == Some(&"api");
    if output.form == Form::Discovery {
        let response = respond::value(StatusCode::OK, &aggregated(registry, core), output.format);
        return Ok(vary(say_form(response, output.format)));
    }
    let value = match parts {
        ["api"] => json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
        }),
        ["apis"] => {
            let groups = registry.groups().into_iter().filter(|(group, _)| !group.is_empty());
            let groups: Vec<Value> = groups.map(|(group, versions)| group_value(&group, &versions)).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        ["apis", group] => {
            let groups = registry.groups();
            let versions = groups.get(*group).ok_or_else(ApiError::no_such_path)?;
            let mut value = group_value(group, versions);
            value["kind"] = "APIGroup".into();
            value["apiVersion"] = "v1".into();
            value
        }
        ["api", version] => resource_list(registry, "", version)?,
        ["apis", group, version] => resource_list(registry, group, version)?,
        _ => return Err(ApiError::no_such_path()),
    };
    Ok(vary(respond::value(StatusCode::OK, &value, output.format)))
}

/// The media type of aggregated discovery says what is in it.
fn say_form(mut response: Response<Body>, format: Format) -> Response<Body> {
    let media_type = match format {
        Format::Json => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Format::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Format::Protobuf => {
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        }
    };
    // An error that came of it is one as it is.
    if response.status() == StatusCode::OK {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    }
    response
}

fn vary(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

fn group_value(group: &str, versions: &[String]) -> Value {
    let version =
        |version: &String| json!({"groupVersion": join_api_version(group, version), "version": version});
    let versions: Vec<Value> = versions.iter().map(version).collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
}

/// The resources of a group that are served in a version.
pub(crate) fn served<'a>(
    registry: &'a Registry,
    group: &str,
    version: &str,
) -> impl Iterator<Item = (&'a Resource, &'a Version)> {
    let version = version.to_owned();
    registry.in_group(group).filter_map(move |resource| {
        let version = resource.version(&version)?;
        Some((resource.as_ref(), version.as_ref()))
    })
}

fn verbs(resource: &Resource) -> &'static [&'static str] {
    match resource.virtual_kind {
        None => &VERBS,
        Some(Virtual::ComponentStatus) => &READ_VERBS,
        Some(_) => &ANSWER_VERBS,
    }
}

struct Subresource<'a> {
    name: &'static str,
    /// Group, version and kind it answers with, if those are not the resource's own.
    kind: Option<[&'a str; 3]>,
    verbs: &'static [&'static str],
}

/// The subresources of a version.
fn subresources(version: &Version) -> Vec<Subresource<'_>> {
    let part = |name| Subresource { name, kind: None, verbs: &SUBRESOURCE_VERBS };
    let mut found: Vec<Subresource<'_>> = version
        .below
        .iter()
        .map(|below| match below {
            Below::Subresource(subresource) => part(subresource.name),
            Below::Asked(name, asked) => Subresource {
                name,
                kind: asked
                    .versions
                    .first()
                    .map(|version| [asked.name.group(), version.name.as_str(), asked.kind.as_str()]),
                verbs: &ANSWER_VERBS,
            },
        })
        .collect();
    if version.scale.is_some() {
        found.push(Subresource { kind: Some(["autoscaling", "v1", "Scale"]), ..part("scale") });
    }
    if version.status {
        found.push(part("status"));
    }
    found
}

/// Upstream's hash of the version in which objects are stored. It changes if the storage version does.
fn storage_version_hash(api_version: &str, kind: &str) -> String {
    let digest = digest(&SHA256, format!("{api_version}/{kind}").as_bytes());
    STANDARD.encode(&digest.as_ref()[..8])
}

fn resource_list(registry: &Registry, group: &str, version: &str) -> Result<Value> {
    let mut resources = Vec::new();
    for (resource, version) in served(registry, group, version) {
        let name = resource.name.resource();
        let mut entry = json!({
            "name": name, "singularName": resource.singular, "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": verbs(resource),
        });
        if !resource.short_names.is_empty() {
            entry["shortNames"] = json!(resource.short_names);
        }
        if !resource.categories.is_empty() {
            entry["categories"] = json!(resource.categories);
        }
        if resource.is_custom() {
            entry["storageVersionHash"] =
                storage_version_hash(&resource.stored_version, &resource.kind).into();
        }
        resources.push(entry);
        for Subresource { name: subresource, kind, verbs } in subresources(version) {
            let mut entry = json!({
                "name": format!("{name}/{subresource}"), "singularName": "", "namespaced": resource.namespaced,
                "kind": kind.map_or(resource.kind.as_str(), |[_, _, kind]| kind), "verbs": verbs,
            });
            if let Some([group, version, _]) = kind {
                entry["group"] = group.into();
                entry["version"] = version.into();
            }
            resources.push(entry);
        }
    }
    if resources.is_empty() {
        return Err(ApiError::no_such_path());
    }
    let group_version = join_api_version(group, version);
    Ok(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}),
    )
}

fn aggregated(registry: &Registry, core: bool) -> Value {
    let groups = registry.groups().into_iter().filter(|(group, _)| group.is_empty() == core);
    let items: Vec<Value> = groups
        .map(|(group, versions)| {
            let version = |version: &String| {
                let resources: Vec<Value> =
                    served(registry, &group, version).map(|(r, v)| aggregated_resource(r, v)).collect();
                json!({"version": version, "resources": resources, "freshness": "Current"})
            };
            let versions: Vec<Value> = versions.iter().map(version).collect();
            json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_resource(resource: &Resource, version: &Version) -> Value {
    let own = json!({"group": resource.name.group(), "version": version.name, "kind": resource.kind});
    let mut entry = json!({
        "resource": resource.name.resource(), "responseKind": own,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular, "verbs": verbs(resource),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    let subresources: Vec<Value> = subresources(version)
        .into_iter()
        .map(|Subresource { name, kind, verbs }| {
            let kind =
                kind.map_or_else(|| own.clone(), |[g, v, k]| json!({"group": g, "version": v, "kind": k}));
            json!({"subresource": name, "responseKind": kind, "verbs": verbs})
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of upstream's own test of it.
    #[test]
    fn hashes_are_those_of_upstream() {
        assert_eq!(storage_version_hash("/v1", "Pod"), "xPOwRZ+Yhw8=");
        assert_eq!(storage_version_hash("apps/v1", "Deployment"), "8aSe+NMegvE=");
    }
}
