//! Dry runs of the manifests on the server, so that defaults, rules and rejections are the server's own.

use anyhow::{Context, Result};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, ValidationDirective};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{self, Scope};
use serde_json::{Map, Value};

use super::report::Refusal;

/// What `kubectl apply --server-side` calls itself.
const SERVER_SIDE: &str = "kubectl";
/// What `kubectl apply` calls itself.
const CLIENT_SIDE: &str = "kubectl-client-side-apply";
/// Annotation of `kubectl apply` with the last applied configuration.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// One object before and after the change, or why the server rejects it.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    pub(super) kind: String,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// The current object, if it exists.
    pub(super) before: Option<DynamicObject>,
    /// The object after the change; the current one, if the server rejects the change.
    pub(super) after: Option<DynamicObject>,
    pub(super) refused: Vec<Refusal>,
}

/// Applies an object in a dry run.
pub(super) async fn attempt(client: &Client, manifest: Value, force: bool) -> Result<Tried> {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind, name) =
        (text("/apiVersion").to_owned(), text("/kind").to_owned(), text("/metadata/name").to_owned());
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let mut tried = Tried {
        kind: kind.clone(),
        namespace: Some(text("/metadata/namespace").to_owned()),
        name: name.clone(),
        before: None,
        after: None,
        refused: Vec::new(),
    };
    if !is_path_segment(&name) {
        let why = "no object can have this name: names are parts of URLs, such as web-0 or system:node";
        tried.refused.push(Refusal::new("metadata.name", why));
        return Ok(tried);
    }
    let found = discovery::pinned_kind(client, &GroupVersionKind::gvk(group, version, &kind)).await;
    let (resource, capabilities) = match found {
        Ok(found) => found,
        Err(kube::Error::Discovery(_) | kube::Error::Api(_)) => {
            let why = format!("the plane does not know {api_version}: install what serves it");
            tried.refused.push(Refusal::new("apiVersion", why));
            return Ok(tried);
        }
        Err(error) => return Err(error).context("cannot ask the plane which kinds it knows"),
    };
    let mut manifest = manifest;
    if capabilities.scope == Scope::Cluster {
        tried.namespace = None;
        if let Some(metadata) = manifest["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
    }
    let api = access(client, &resource, tried.namespace.as_deref());
    let doing = || format!("cannot read {kind} {name}");
    let before = api.get_opt(&name).await.with_context(doing)?;
    match dry_run(&api, &name, &manifest, before.as_ref(), force).await {
        Ok(after) => tried.after = Some(after),
        Err(kube::Error::Api(status)) => {
            tried.refused = refusals(&status);
            tried.after.clone_from(&before);
        }
        Err(error) => return Err(error).with_context(|| format!("cannot try {kind} {name}")),
    }
    tried.before = before;
    Ok(tried)
}

/// Whether a name can be in the URL of a request. An API server accepts no other for any kind.
fn is_path_segment(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._~:@!$&'()*+,;=".contains(c);
    !["", ".", ".."].contains(&name) && name.chars().all(is_allowed)
}

fn access(client: &Client, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

/// As `kubectl apply` would, if the object was made by it; otherwise as `kubectl apply --server-side` would.
async fn dry_run(
    api: &Api<DynamicObject>,
    name: &str,
    manifest: &Value,
    before: Option<&DynamicObject>,
    force: bool,
) -> kube::Result<DynamicObject> {
    let mut parameters = PatchParams {
        dry_run: true,
        force: false,
        field_manager: Some(SERVER_SIDE.to_owned()),
        field_validation: Some(ValidationDirective::Strict),
    };
    if let Some((before, last)) = before.and_then(|before| Some((before, last_applied(before)?))) {
        parameters.field_manager = Some(CLIENT_SIDE.to_owned());
        let live = serde_json::to_value(before).unwrap_or_default();
        let mut manifest = manifest.clone();
        // What it was given last is remembered with annotations, even if there were none.
        if manifest["metadata"]["annotations"].is_null() {
            manifest["metadata"]["annotations"] = Value::Object(Map::new());
        }
        let patch = three_way(&last, &manifest, &live).unwrap_or_else(|| Value::Object(Map::new()));
        return api.patch(name, &parameters, &Patch::Merge(&patch)).await;
    }
    parameters.force = force;
    api.patch(name, &parameters, &Patch::Apply(manifest)).await
}

fn last_applied(object: &DynamicObject) -> Option<Value> {
    serde_json::from_str(object.metadata.annotations.as_ref()?.get(LAST_APPLIED)?).ok()
}

/// The merge patch that brings `live` to what `new` says and takes away what only `last` said.
fn three_way(last: &Value, new: &Value, live: &Value) -> Option<Value> {
    let (Value::Object(new), Value::Object(live)) = (new, live) else {
        return (new != live).then(|| new.clone());
    };
    let mut patch = Map::new();
    for key in last.as_object().into_iter().flat_map(Map::keys).filter(|key| !new.contains_key(*key)) {
        if live.contains_key(key) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    for (key, value) in new {
        let change = match live.get(key) {
            Some(live) => three_way(last.get(key).unwrap_or(&Value::Null), value, live),
            None => Some(value.clone()),
        };
        patch.extend(change.map(|change| (key.clone(), change)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn refusals(status: &kube::core::Status) -> Vec<Refusal> {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let is_conflict = status.reason == "Conflict";
    let refusal = |field: &str, message: &str| {
        let hint = if is_conflict { " (--force takes the field over)" } else { "" };
        Refusal::new(field.trim_start_matches('.'), format!("{message}{hint}"))
    };
    match causes.is_empty() {
        true => vec![refusal("", &status.message)],
        false => causes.iter().map(|cause| refusal(&cause.field, &cause.message)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_said_any_more_is_taken_away_and_what_others_said_stays() {
        let live = json!({"a": 1, "b": {"x": 1, "theirs": 2}, "list": [1], "theirs": 3});
        for (last, new, patch) in [
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({"a": 1}), json!({"a": 2}), Some(json!({"a": 2}))),
            (json!({"a": 1, "b": {"x": 1}}), json!({"b": {}}), Some(json!({"a": null, "b": {"x": null}}))),
            (json!({}), json!({"list": [1, 2], "c": {}}), Some(json!({"list": [1, 2], "c": {}}))),
            (json!({"gone": 1}), json!({"a": 1}), None),
        ] {
            assert_eq!(three_way(&last, &new, &live), patch, "{last} {new}");
        }
    }

    #[test]
    fn a_name_is_a_part_of_a_url() {
        for (name, is_name) in [
            ("web-0", true),
            ("system:node", true),
            ("", false),
            ("..", false),
            ("a/b", false),
            ("a b", false),
            ("a%2Fb", false),
            ("<b>", false),
            ("\u{e9}", false),
        ] {
            assert_eq!(is_path_segment(name), is_name, "{name}");
        }
    }

    #[test]
    fn a_refusal_names_the_field() {
        let status: kube::core::Status = serde_json::from_value(json!({
            "code": 422, "reason": "Invalid", "message": "all of it",
            "details": {"causes": [{"field": "spec.version", "message": "no version", "reason": "FieldValueInvalid"}]},
        }))
        .expect("a status");
        assert_eq!(refusals(&status), [Refusal::new("spec.version", "no version")]);
        let conflict: kube::core::Status = serde_json::from_value(json!({
            "code": 409, "reason": "Conflict", "message": "m",
            "details": {"causes": [{"field": ".spec.replicas", "message": "conflict with \"a\"", "reason": "x"}]},
        }))
        .expect("a status");
        let refused = refusals(&conflict);
        assert_eq!(refused[0].field, "spec.replicas");
        assert!(refused[0].reason.contains("--force"));
    }
}
