//! CustomResourceDefinitions: their defaults, and the status the server keeps in them.
//!
//! Upstream leaves the status to controllers that run a moment later; here it is part of the same write,
//! so that a CRD that has been answered for is served.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    super::{Env, Registry, Rules, crd::is_established, crd_validation},
    webhooks::default_port,
};
use crate::{object, store::GroupResource};

/// Keeps a CRD until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The resource of CRDs: group and plural.
pub const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

pub(crate) const CUSTOM_RESOURCE_DEFINITION: Rules = Rules {
    default,
    on_create: write_status,
    on_update: |definition, _, env| write_status(definition, env),
    validate: crd_validation::validate,
    validate_status: |definition, _| crd_validation::validate_stored_versions(definition),
    generation: true,
    ..Rules::PLAIN
};

fn default(definition: &mut Value) {
    let names = &mut definition["spec"]["names"];
    let kind = object::text(names, &["kind"]).to_owned();
    if object::text(names, &["singular"]).is_empty() && !kind.is_empty() {
        names["singular"] = kind.to_lowercase().into();
    }
    if object::text(names, &["listKind"]).is_empty() && !kind.is_empty() {
        names["listKind"] = format!("{kind}List").into();
    }
    if definition["spec"].get("conversion").is_none() {
        definition["spec"]["conversion"] = json!({"strategy": "None"});
    }
    default_port(definition.pointer_mut("/spec/conversion/webhook/clientConfig"));
}

/// Writes names, versions and conditions into the status.
fn write_status(definition: &mut Value, env: &Env<'_>) {
    let conflict = name_conflict(definition, env.registry);
    let accepted = conflict.is_none();
    let (reason, message) = match &conflict {
        None => ("NoConflicts", "no conflicts found"),
        Some((reason, message)) => (*reason, message.as_str()),
    };
    set_condition(definition, env.now, "NamesAccepted", accepted, reason, message);
    if accepted {
        definition["status"]["acceptedNames"] = definition["spec"]["names"].clone();
        let message = "the initial names have been accepted";
        set_condition(definition, env.now, "Established", true, "InitialNamesAccepted", message);
    } else if !is_established(definition) {
        if definition["status"].get("acceptedNames").is_none() {
            definition["status"]["acceptedNames"] = json!({"kind": "", "plural": ""});
        }
        let message = "not all names are accepted";
        set_condition(definition, env.now, "Established", false, "NotAccepted", message);
    }
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let storage = versions.into_iter().flatten().find(|v| v.get("storage") == Some(&Value::Bool(true)));
    let storage = storage.and_then(|version| version.get("name")).cloned();
    let mut stored =
        definition.pointer("/status/storedVersions").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(storage) = storage.filter(|storage| !stored.contains(storage)) {
        stored.push(storage);
    }
    definition["status"]["storedVersions"] = stored.into();
}

/// Another resource of the group that has one of the names.
fn name_conflict(definition: &Value, registry: &Registry) -> Option<(&'static str, String)> {
    let text = |path: &[&str]| object::text(definition, path);
    let (group, plural) = (text(&["spec", "group"]), text(&["spec", "names", "plural"]));
    let own = GroupResource::new(group, plural);
    let (kind, list_kind) = (text(&["spec", "names", "kind"]), text(&["spec", "names", "listKind"]));
    for other in registry.in_group(group).filter(|other| other.name != own) {
        for name in [kind, list_kind] {
            if [&other.kind, &other.list_kind].contains(&&name.to_owned()) {
                let reason = if name == kind { "KindConflict" } else { "ListKindConflict" };
                return Some((reason, format!("{name:?} is already in use")));
            }
        }
        let singular = text(&["spec", "names", "singular"]);
        if other.singular == singular || other.name.resource() == singular {
            return Some(("SingularConflict", format!("{singular:?} is already in use")));
        }
    }
    None
}

/// Sets a condition; its time moves only with its status.
fn set_condition(
    definition: &mut Value,
    now: Timestamp,
    kind: &str,
    status: bool,
    reason: &str,
    message: &str,
) {
    if !definition["status"]["conditions"].is_array() {
        definition["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = definition["status"]["conditions"].as_array_mut() else { return };
    let status = if status { "True" } else { "False" };
    let existing = conditions.iter_mut().find(|condition| object::text(condition, &["type"]) == kind);
    let since =
        existing.as_ref().filter(|condition| object::text(condition, &["status"]) == status).map_or_else(
            || object::time(now),
            |condition| object::text(condition, &["lastTransitionTime"]).to_owned(),
        );
    let condition = json!({
        "type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    match existing {
        Some(existing) => *existing = condition,
        None => conditions.push(condition),
    }
}

/// Marks a CRD that is being deleted: its objects go first.
pub fn terminate(definition: &mut Value, now: Timestamp) {
    let mut finalizers: Vec<String> = object::finalizers(definition).into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER) {
        finalizers.push(CLEANUP_FINALIZER.to_owned());
    }
    object::set_finalizers(definition, finalizers);
    let message = "CustomResource deletion is in progress";
    set_condition(definition, now, "Terminating", true, "InstanceDeletionInProgress", message);
}
