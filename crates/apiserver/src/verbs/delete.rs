//! Delete: at once, or marked until all finalizers are removed.

use std::sync::Arc;

use serde_json::Value;

use super::update::is_unheld;
use crate::{
    admission::{self, Attempt},
    call::Call,
    object,
    registry::kinds::definition,
    request::options::{DeleteOptions, Propagation},
    status::{ApiError, Result},
    store::{Action, Expect, GroupResource, Stored, Write, WriteError},
};

/// Keeps an object until its blocking dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Keeps an object until its dependents have forgotten it.
pub(crate) const ORPHAN: &str = "orphan";

/// What became of the object.
pub(crate) enum Deleted {
    Gone(Arc<Stored>),
    Pending(Arc<Stored>),
}

/// Deletes one object.
pub(crate) async fn delete(call: &Call, options: &DeleteOptions) -> Result<Deleted> {
    loop {
        let stored = call.stored()?;
        let value = stored.value.once();
        check_preconditions(call, &value, options)?;
        (call.resource.rules.before_delete)(&value)?;
        admitted(call, &stored, options).await?;
        let marked = mark(call, &value, options.propagation);
        let action = if is_unheld(&marked) {
            Action::Delete
        } else if marked == *value {
            return Ok(Deleted::Pending(stored));
        } else {
            Action::Put(marked)
        };
        let gone = matches!(action, Action::Delete);
        let outcome = |stored| if gone { Deleted::Gone(stored) } else { Deleted::Pending(stored) };
        if options.dry_run {
            return Ok(match action {
                Action::Delete => Deleted::Gone(stored),
                Action::Put(marked) => Deleted::Pending(as_if(&stored, &marked)),
            });
        }
        let expect = Expect::Revision(stored.revision);
        let write = Write { key: stored.key.clone(), expect, action, guards: Vec::new() };
        match call.plane.store.write(write).await {
            Ok(stored) => return Ok(outcome(stored)),
            Err(WriteError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What would be stored in place of an object.
fn as_if(stored: &Stored, value: &Value) -> Arc<Stored> {
    Arc::new(Stored::new(stored.key.clone(), stored.revision, value.to_string().into()))
}

/// Asks webhooks, if there are any to be asked: an object that cannot be converted can still be deleted
/// where nobody wants to see it.
async fn admitted(call: &Call, stored: &Arc<Stored>, options: &DeleteOptions) -> Result<()> {
    if !admission::sees_deletions(call) {
        return Ok(());
    }
    let old = call.present(stored).await?.into_value();
    let attempt = Attempt::delete(&call.name, &old, options);
    admission::mutate(call, &attempt, None).await?;
    call.notes.warn(admission::validate(call, &attempt, None).await?);
    Ok(())
}

fn check_preconditions(call: &Call, object: &Value, options: &DeleteOptions) -> Result<()> {
    let conditions = [
        ("UID", &options.uid, "uid", "deleted and then recreated"),
        ("ResourceVersion", &options.resource_version, "resourceVersion", "modified"),
    ];
    for (word, wanted, field, happened) in conditions {
        let found = object::meta_str(object, field);
        if let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != found) {
            let detail = format!(
                "the {word} in the precondition ({wanted}) does not match the {word} in record ({found}). \
                 The object might have been {happened}"
            );
            // As upstream: the kind, where others name the resource.
            let kind = GroupResource::new(call.resource.name.group(), &call.resource.kind);
            return Err(ApiError::conflict(&kind, &call.name, &detail));
        }
    }
    Ok(())
}

/// The object as it is while it waits for its holders.
fn mark(call: &Call, object: &Value, propagation: Option<Propagation>) -> Value {
    let mut marked = object.clone();
    let mut finalizers: Vec<String> = object::finalizers(object).into_iter().map(str::to_owned).collect();
    let wanted = match propagation {
        None => None,
        Some(Propagation::Background) => Some(""),
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Orphan) => Some(ORPHAN),
    };
    if let Some(wanted) = wanted {
        finalizers
            .retain(|finalizer| (finalizer != FOREGROUND && finalizer != ORPHAN) || finalizer == wanted);
        if !wanted.is_empty() && !finalizers.iter().any(|finalizer| finalizer == wanted) {
            finalizers.push(wanted.to_owned());
        }
        object::set_finalizers(&mut marked, finalizers);
    }
    if object::is_terminating(object) {
        return marked;
    }
    let now = call.plane.now();
    let metadata = object::metadata_mut(&mut marked);
    metadata.insert("deletionTimestamp".to_owned(), object::time(now).into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
        metadata.insert("generation".to_owned(), (generation + 1).into());
    }
    match call.resource.kind.as_str() {
        "Namespace" if !call.resource.is_custom() => marked["status"]["phase"] = "Terminating".into(),
        "CustomResourceDefinition" if !call.resource.is_custom() => {
            definition::terminate(&mut marked, now);
        }
        _ => {}
    }
    marked
}
