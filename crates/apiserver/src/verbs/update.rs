//! Update: an edit of the current object, written on condition that it still is the current one, and
//! tried again if it is not. Put, patch, apply, status, scale and finalize all come through here.

use std::sync::Arc;

use serde_json::Value;

use super::{create, create::NewObject};
use crate::{
    admission::{self, Attempt},
    call::{Call, Outcome, Representation},
    fields, object, quota_admission,
    registry::Side,
    request::options::WriteOptions,
    restriction,
    status::{ApiError, Cause, Result},
    store::{Action, Expect, Stored, Write, WriteError},
    validation::{admit, metadata},
};

/// A bound on what could only be a bug: somebody else wins every time.
const TRIES: usize = 1000;

/// What an edit wants.
pub(crate) struct Edit {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
    /// The managed fields have been worked out: it is an apply.
    pub(crate) tracked: bool,
}

/// Changes an object. `edit` gets the current one, in the version that was asked for, or nothing.
pub(crate) async fn update(
    call: &Call,
    options: &WriteOptions,
    edit: impl Fn(Option<&Value>) -> Result<Edit> + Send + Sync,
) -> Result<Outcome> {
    for _ in 0..TRIES {
        let Some(stored) = call.plane.store.get(&call.key()) else {
            let Edit { mut object, warnings, tracked } = edit(None)?;
            // kube-apiserver's order: an apply looks for the object before it looks at the name.
            if tracked {
                check_nobody(call, &object)?;
            }
            check_name(call, &object)?;
            check_nobody(call, &object)?;
            // There is nothing that it could be a condition on.
            if !options.dry_run {
                object::metadata_mut(&mut object).shift_remove("resourceVersion");
            }
            let new = NewObject { object, warnings, tracked, by_update: true };
            match create::create(call, new, options).await {
                // Somebody else was faster: now there is something to edit.
                Err(error) if error.reason() == "AlreadyExists" && !options.dry_run => continue,
                outcome => return outcome,
            }
        };
        let old = call.present(&stored).await?.into_value();
        let edit = edit(Some(&old))?;
        let warnings = edit.warnings.clone();
        let changed = change(call, &stored, old, edit, options).await;
        if let Some(outcome) = changed.map_err(|error| error.warned(warnings))? {
            return Ok(outcome);
        }
    }
    Err(ApiError::modified(&call.resource.name, &call.name))
}

/// Carries out an edit of what is stored; nothing comes of it if somebody else was faster.
async fn change(
    call: &Call,
    stored: &Arc<Stored>,
    old: Value,
    edit: Edit,
    options: &WriteOptions,
) -> Result<Option<Outcome>> {
    let Edit { object, mut warnings, tracked } = edit;
    let attempt = Attempt::update(&call.name, &old, options);
    let sent = prepare(call, object, &old, tracked, options)?;
    let (changed, more) = admission::mutate(call, &attempt, Some(sent)).await?;
    warnings.extend(more);
    let changed = changed.unwrap_or_default();
    // Before metadata that the client left out is filled in: to kube-apiserver an update without it is a change.
    (call.resource.rules.admit_sent)(&call.writer(), &changed, Some(&old))?;
    check_revision(call, &changed, &old)?;
    let mut new = merge_and_admit(call, changed, &old)?;
    if call.side.is_main() {
        restriction::check(&call.plane.restrictions, &call.user, &call.resource.name, &new, &old)?;
    }
    warnings.extend(metadata::warnings(call, &new, Some(&old)));
    warnings.extend(admission::validate(call, &attempt, Some(&new)).await?);
    if fields::same(&mut new, &old) {
        return Ok(Some(Outcome { object: Representation::Made(old), created: false, warnings }));
    }
    // Held until the change is stored.
    let _permit = quota_admission::admit(call, &new, Some(&old)).await?;
    if options.dry_run {
        return Ok(Some(Outcome { object: Representation::Made(new), created: false, warnings }));
    }
    let written = write(call, stored, new).await?;
    Ok(written.map(|object| Outcome { object, created: false, warnings }))
}

/// Writes what came of `stored`; gives it, or nothing if somebody else was faster.
async fn write(call: &Call, stored: &Arc<Stored>, new: Value) -> Result<Option<Representation>> {
    let finished = object::is_terminating(&new) && is_unheld(&new);
    let action = if finished { Action::Delete } else { Action::Put(call.to_stored(new.clone()).await?) };
    let expect = Expect::Revision(stored.revision);
    let write = Write { key: stored.key.clone(), expect, action, guards: Vec::new() };
    match call.plane.store.write(write).await {
        Ok(_) if finished => Ok(Some(Representation::Made(new))),
        Ok(written) => Ok(Some(call.present(&written).await?)),
        Err(WriteError::Conflict) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether nothing keeps an object that is being deleted.
pub(crate) fn is_unheld(object: &Value) -> bool {
    let namespace_content = object::kind(object) == "Namespace" && object::api_version(object) == "v1";
    let held = namespace_content
        && object::at(object, &["spec", "finalizers"])
            .and_then(Value::as_array)
            .is_some_and(|f| !f.is_empty());
    object::finalizers(object).is_empty() && !held
}

/// The object as it was sent, with its namespace, its defaults and its managed fields.
fn prepare(call: &Call, mut new: Value, old: &Value, tracked: bool, options: &WriteOptions) -> Result<Value> {
    check_namespace(call, &new)?;
    check_name(call, &new)?;
    if !call.namespace.is_empty() {
        object::metadata_mut(&mut new).insert("namespace".to_owned(), call.namespace.clone().into());
    }
    admit::default(call, &mut new, tracked);
    if !tracked {
        fields::track(call, Some(old), &mut new, options);
    }
    Ok(new)
}

/// The object as it will be stored: what this side of it may change from `new`, all else from `old`.
fn merge_and_admit(call: &Call, mut new: Value, old: &Value) -> Result<Value> {
    keep(&mut new, old);
    let mut new = merge_sides(call, new, old);
    let env = call.env();
    let rules = call.resource.rules;
    match call.side {
        Side::Main | Side::Scale => (rules.on_update)(&mut new, old, &env),
        Side::Status => (rules.on_status)(&mut new, old, &env),
        Side::Subresource(subresource) => (subresource.prepare)(&mut new, old, &env),
    }
    let generation =
        object::metadata(old).and_then(|metadata| metadata.get("generation")).and_then(Value::as_i64);
    if rules.generation && is_new_generation(call, &new, old) {
        object::metadata_mut(&mut new).insert("generation".to_owned(), (generation.unwrap_or(0) + 1).into());
    }
    (rules.admit)(&call.writer(), &new, Some(old))?;
    admit::validate(call, &new, Some(old))?;
    object::normalize_numbers(&mut new);
    Ok(new)
}

/// Refuses what is meant for an object of another name.
pub(crate) fn check_name(call: &Call, new: &Value) -> Result<()> {
    let name = object::name(new);
    if name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.name
        )));
    }
    if name != call.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name
        )));
    }
    Ok(())
}

/// Refuses what is meant for another namespace.
pub(crate) fn check_namespace(call: &Call, new: &Value) -> Result<()> {
    let namespace = object::meta_str(new, "namespace");
    if !namespace.is_empty() && namespace != call.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Refuses what somebody takes for an object that there is not.
fn check_nobody(call: &Call, new: &Value) -> Result<()> {
    match object::uid(new) {
        "" => Ok(()),
        uid => {
            let detail = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            Err(ApiError::conflict(&call.resource.name, &call.name, &detail))
        }
    }
}

/// Refuses what is meant for an object of the same name that is no more, or not yet.
pub(crate) fn check_uid(call: &Call, new: &Value, old: &Value) -> Result<()> {
    let (given, uid) = (object::uid(new), object::uid(old));
    if given.is_empty() || given == uid {
        return Ok(());
    }
    let detail = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {uid}");
    Err(ApiError::conflict(&call.resource.name, &call.name, &detail))
}

/// Refuses an update of another revision, and one without a revision where it needs one.
fn check_revision(call: &Call, new: &Value, old: &Value) -> Result<()> {
    match object::meta_str(new, "resourceVersion") {
        "" | "0" if call.resource.rules.unconditional_update => {}
        "" | "0" => {
            let cause = Cause {
                reason: "FieldValueInvalid".to_owned(),
                field: "metadata.resourceVersion".to_owned(),
                message: "Invalid value: 0: must be specified for an update".to_owned(),
            };
            // The plural, as upstream.
            let (group, plural) = (call.resource.name.group(), call.resource.name.resource());
            return Err(ApiError::invalid(group, plural, &call.name, &[cause]));
        }
        given if given != object::meta_str(old, "resourceVersion") => {
            return Err(ApiError::modified(&call.resource.name, &call.name));
        }
        _ => {}
    }
    Ok(())
}

/// Puts back what nobody can change.
fn keep(new: &mut Value, old: &Value) {
    let before = object::metadata(old).cloned().unwrap_or_default();
    let metadata = object::metadata_mut(new);
    // Another UID is told with what else is wrong.
    if metadata.get("uid").is_none() {
        metadata.insert("uid".to_owned(), before.get("uid").cloned().unwrap_or_default());
    }
    let kept = [
        "name",
        "namespace",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
        "selfLink",
    ];
    for field in kept {
        match before.get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.shift_remove(field),
        };
    }
}

/// Which side of the object the request may write.
fn merge_sides(call: &Call, mut new: Value, old: &Value) -> Value {
    match call.side {
        Side::Main if call.version.status => {
            put(&mut new, "status", old.get("status"));
            new
        }
        Side::Main | Side::Scale => new,
        Side::Status => {
            let strict = call.resource.is_custom() || call.resource.kind == "CustomResourceDefinition";
            let mut merged = old.clone();
            put(&mut merged, "status", new.get("status"));
            if strict {
                let managed =
                    object::metadata(&new).and_then(|metadata| metadata.get("managedFields")).cloned();
                put(&mut merged["metadata"], "managedFields", managed.as_ref());
            } else {
                merged["metadata"] = new["metadata"].take();
            }
            merged
        }
        Side::Subresource(subresource) => (subresource.merge)(&new, old),
    }
}

fn put(object: &mut Value, field: &str, value: Option<&Value>) {
    match value {
        Some(value) => object[field] = value.clone(),
        None => drop(object.as_object_mut().and_then(|object| object.shift_remove(field))),
    }
}

/// Whether something outside metadata changed, and outside status where that is a side of its own.
fn is_new_generation(call: &Call, new: &Value, old: &Value) -> bool {
    if matches!(call.side, Side::Status | Side::Subresource(_)) {
        return false;
    }
    let relevant = |object: &Value| {
        let mut object = object.clone();
        put(&mut object, "metadata", None);
        if call.version.status {
            put(&mut object, "status", None);
        }
        object
    };
    relevant(new) != relevant(old)
}
