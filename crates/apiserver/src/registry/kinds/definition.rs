//! CustomResourceDefinitions: their defaults, their rules, and the status the server keeps in them.
//!
//! Upstream leaves the status to controllers that run a moment later; here it is part of the same write,
//! so that a CRD that has been answered for is served.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    super::{Env, Registry, Rules, custom},
    webhooks::default_port,
};
use crate::{object, status::Cause, store::GroupResource};

/// Keeps a CRD until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The resource of CRDs: group and plural.
pub(crate) const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

pub(crate) const CUSTOM_RESOURCE_DEFINITION: Rules = Rules {
    default,
    on_create: settle,
    on_update: |definition, _, env| settle(definition, env),
    validate: custom::validate,
    validate_status: |definition, _| validate_stored_versions(definition),
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
fn settle(definition: &mut Value, env: &Env<'_>) {
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

/// Whether the CRD is being served.
pub(crate) fn is_established(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        object::text(condition, &["type"]) == "Established" && object::text(condition, &["status"]) == "True"
    })
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
pub(crate) fn terminate(definition: &mut Value, now: Timestamp) {
    let mut finalizers: Vec<String> = object::finalizers(definition).into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER) {
        finalizers.push(CLEANUP_FINALIZER.to_owned());
    }
    object::set_finalizers(definition, finalizers);
    let message = "CustomResource deletion is in progress";
    set_condition(definition, now, "Terminating", true, "InstanceDeletionInProgress", message);
}

/// What is wrong with the names and the group.
pub(crate) fn validate_names(definition: &Value) -> Vec<Cause> {
    let text = |path: &[&str]| object::text(definition, path);
    let (group, plural) = (text(&["spec", "group"]), text(&["spec", "names", "plural"]));
    let mut causes = Vec::new();
    let expected = format!("{plural}.{group}");
    if object::name(definition) != expected {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &object::name(definition).into(), detail));
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(&["spec", "names", field]).is_empty() {
            causes.push(Cause::required(format!("spec.names.{field}"), ""));
        }
    }
    if !group.contains('.') {
        causes.push(Cause::invalid("spec.group", &group.into(), "should be a domain with at least one dot"));
    }
    let scope = text(&["spec", "scope"]);
    if !["Cluster", "Namespaced"].contains(&scope) {
        causes.push(Cause::unsupported("spec.scope", &scope.into(), &["Cluster", "Namespaced"]));
    }
    causes
}

/// What cannot change once objects of the kind may be stored: it says where they are and what they are.
pub(crate) fn validate_change(definition: &Value, old: &Value) -> Vec<Cause> {
    if !is_established(old) {
        return Vec::new();
    }
    let fields =
        [("spec.scope", ["spec", "scope"].as_slice()), ("spec.names.kind", &["spec", "names", "kind"])];
    let changed =
        fields.into_iter().filter(|(_, path)| object::text(definition, path) != object::text(old, path));
    changed
        .map(|(field, path)| {
            Cause::invalid(field, &object::text(definition, path).into(), "field is immutable")
        })
        .collect()
}

/// What is wrong with the versions in which objects may be stored: each must be there to be read.
pub(crate) fn validate_stored_versions(definition: &Value) -> Vec<Cause> {
    let versions = || definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let Some(stored) = definition.pointer("/status/storedVersions").and_then(Value::as_array) else {
        return Vec::new();
    };
    let is_there = |name: &Value| versions().any(|version| version.get("name") == Some(name));
    let missing = |(index, name): (usize, &Value)| {
        let text = name.as_str().unwrap_or_default();
        let detail = format!(
            "missing from spec.versions; {text} was previously a storage version, and must remain in spec.versions \
             until a storage migration ensures no data remains persisted in {text} and removes {text} from \
             status.storedVersions"
        );
        Cause::invalid(format!("status.storedVersions[{index}]"), name, &detail)
    };
    let mut causes: Vec<Cause> =
        stored.iter().enumerate().filter(|(_, name)| !is_there(name)).map(missing).collect();
    let storage = versions().find(|version| version.get("storage") == Some(&Value::Bool(true)));
    let storage = storage.and_then(|version| version.get("name"));
    if let Some(storage) = storage.filter(|storage| !stored.contains(storage)) {
        let detail = format!("must have the storage version {}", storage.as_str().unwrap_or_default());
        causes.push(Cause::invalid("status.storedVersions", &Value::Array(stored.clone()), &detail));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(scope: &str, versions: &[&str], stored: &[&str]) -> Value {
        let versions: Vec<Value> =
            versions.iter().enumerate().map(|(at, name)| json!({"name": name, "storage": at == 0})).collect();
        json!({
            "spec": {"scope": scope, "names": {"kind": "Ship"}, "versions": versions},
            "status": {
                "storedVersions": stored,
                "conditions": [{"type": "Established", "status": "True"}],
            },
        })
    }

    #[test]
    fn where_objects_are_cannot_change_under_them() {
        let old = definition("Namespaced", &["v1"], &["v1"]);
        assert_eq!(validate_change(&old, &old), []);
        let fields = |new: &Value, old: &Value| -> Vec<String> {
            validate_change(new, old).into_iter().map(|cause| cause.field).collect()
        };
        let new = definition("Cluster", &["v1"], &["v1"]);
        assert_eq!(fields(&new, &old), ["spec.scope"]);
        let mut unborn = old.clone();
        unborn["status"]["conditions"] = json!([]);
        assert_eq!(fields(&new, &unborn), [""; 0]);
        let mut renamed = old.clone();
        renamed["spec"]["names"]["kind"] = "Boat".into();
        assert_eq!(fields(&renamed, &old), ["spec.names.kind"]);
    }

    #[test]
    fn versions_that_hold_objects_stay() {
        let fields = |versions: &[&str], stored: &[&str]| -> Vec<String> {
            let causes = validate_stored_versions(&definition("Cluster", versions, stored));
            causes.into_iter().map(|cause| cause.field).collect()
        };
        assert_eq!(fields(&["v2", "v1"], &["v1", "v2"]), [""; 0]);
        assert_eq!(fields(&["v2"], &["v1", "v2"]), ["status.storedVersions[0]"]);
        assert_eq!(fields(&["v2", "v1"], &["v1"]), ["status.storedVersions"]);
        assert_eq!(fields(&["v2"], &["v2"]), [""; 0]);
    }
}
