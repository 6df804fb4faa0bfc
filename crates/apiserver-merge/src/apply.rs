//! Server-side apply: merges an applied configuration into an object, removes fields that the manager applied before
//! and no other manager owns, and updates the ownership of fields.

use crate::conflict::Conflicts;
use crate::fields::{Element, FieldSet};
use crate::gotext::same;
use crate::last_applied;
use crate::managed::{Managed, ManagedFieldsError, Operation, Owned};
use crate::meta;
use crate::update;
use crate::walk::{conform, merge::merge, named::with_named, remove, to_set::field_set};
use crate::write::{Write, take};
use serde_json::Value;

/// The result of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The object with its `managedFields`. The caller must still prune, default and validate it.
    pub object: Value,
    /// Whether anything except `managedFields` has changed.
    pub changed: bool,
}

/// Why an apply was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own fields that are applied with different values. Status 409, reason `Conflict`.
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
    /// The applied configuration is invalid. Status 400.
    #[error("{0}")]
    BadRequest(String),
    /// The applied configuration does not match the schema of its kind. Status 500, as upstream.
    #[error("failed to create typed patch object ({object}): {why}")]
    Patch {
        /// Namespace, name and kind.
        object: String,
        /// The problem.
        why: String,
    },
    /// The live object does not match the schema of its kind. Status 500, as upstream.
    #[error("failed to create typed live object ({object}): {why}")]
    Live {
        /// Namespace, name and kind.
        object: String,
        /// The problem.
        why: String,
    },
    /// The `managedFields` of the live object cannot be decoded. Status 500, as upstream.
    #[error("failed to decode managed fields: {0}")]
    ManagedFields(#[from] ManagedFieldsError),
}

/// Applies a configuration to an object, or creates the object from it.
///
/// # Errors
/// If other managers own applied fields and `force` is not set, or if one of the objects cannot be merged.
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    write: &Write<'_>,
    force: bool,
) -> Result<Applied, ApplyError> {
    let version = applied.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if version != write.api_version {
        let kind = applied.get("kind").and_then(Value::as_str).unwrap_or_default();
        return Err(ApplyError::BadRequest(format!("invalid object type: {version}, Kind={kind}")));
    }
    if applied.pointer("/metadata/managedFields").is_some_and(|entries| !entries.is_null()) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".into()));
    }
    let mut live = live.cloned().unwrap_or_else(|| update::empty(applied, write));
    let mut managed = Managed::of(&live)?;
    meta::take_managed_fields(&mut live);
    if managed.fields.is_empty() {
        // Nobody kept account until now: what is there belongs to whoever wrote it.
        let before = Write { manager: "before-first-apply", ..*write };
        managed = update::track(managed, &update::empty(applied, write), &live, &before);
    }
    let shape = &write.shape.root;
    conform::check(shape, applied, false).map_err(|why| ApplyError::Patch { object: title(applied), why })?;
    conform::check(shape, &live, true).map_err(|why| ApplyError::Live { object: title(&live), why })?;

    let applying = Applying { live: &live, applied, write };
    let outcome = match applying.run(managed.clone(), force) {
        Err(conflicts) if write.manager == last_applied::MANAGER => {
            last_applied::still_in_conflict(conflicts, &live, write)?;
            applying.run(managed, true)?
        }
        outcome => outcome?,
    };
    let (object, managed) = outcome;
    let changed = object.is_some();
    let mut object = object.unwrap_or(live);
    last_applied::renew(&mut object, applied, write);
    managed.write(&mut object);
    Ok(Applied { object, changed })
}

fn title(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let version = text("/apiVersion");
    // The core group has no name.
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{namespace}/{name}; {slash}{version}, Kind={}", text("/kind"))
}

struct Applying<'a> {
    live: &'a Value,
    applied: &'a Value,
    write: &'a Write<'a>,
}

impl Applying<'_> {
    /// The object if it is another than before, and its managers.
    fn run(&self, mut managed: Managed, force: bool) -> Result<(Option<Value>, Managed), Conflicts> {
        let shape = &self.write.shape.root;
        let applier = self.write.manager(Operation::Apply);
        self.write.reconcile(&mut managed);
        let merged = merge(shape, self.live, self.applied);
        let set = field_set(shape, self.applied).without_below(&self.write.reset_fields());
        let last = managed.fields.get(&applier).map(|owned| owned.set.clone());
        let owned = Owned { set, api_version: self.write.api_version.to_string() };
        managed.fields.insert(applier.clone(), owned);
        let object = match last.filter(|last| !last.is_empty()) {
            Some(last) => self.prune(&merged, &managed, &last),
            None => merged.clone(),
        };
        take(&mut managed, &self.write.compare(self.live, &object), &applier, force)?;
        managed.strip(&applier);
        if same(self.live, &object) {
            return Ok((None, managed));
        }
        managed.times.insert(applier, self.write.now.to_string());
        let mut object = object;
        let mut owned = managed.all();
        // Nothing in metadata is kept empty.
        owned.children.remove(&Element::field("metadata"));
        remove::drop_emptied(&mut object, &merged, Some(&owned));
        Ok((Some(object), managed))
    }

    /// Takes away what the applier applied last time and does not now, unless someone else owns it.
    fn prune(&self, merged: &Value, managed: &Managed, last: &FieldSet) -> Value {
        let shape = &self.write.shape.root;
        let named = |set: &FieldSet| with_named(set, Some(shape));
        let all = named(&field_set(shape, merged));
        let last = named(last);
        let left = |pruned: &Value| named(&field_set(shape, pruned));
        let pruned = remove::remove(shape, merged, &last);
        // Back with what anyone owns.
        let kept = left(&pruned).union(named(&managed.all()));
        let pruned = remove::remove(shape, merged, &all.clone().difference(&kept));
        // Back with what the applier did not own.
        remove::remove(shape, merged, &all.difference(&left(&pruned)).intersection(&last))
    }
}

/// The manager name of a client that sends no field manager: the first part of its user agent.
pub fn manager_of_user_agent(user_agent: &str) -> String {
    const LONGEST: usize = 128;
    let mut name = String::new();
    for c in user_agent.split('/').next().unwrap_or_default().chars().filter(|c| !c.is_control()) {
        if name.len() + c.len_utf8() > LONGEST {
            break;
        }
        name.push(c);
    }
    name
}
