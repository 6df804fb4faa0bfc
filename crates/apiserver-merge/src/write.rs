//! A write, and its effect on all managers of an object: other managers lose the fields that it changes.

use crate::conflict::Conflicts;
use crate::fields::{Element, FieldSet};
use crate::managed::{Managed, Manager, Operation};
use crate::shape::Shape;
use crate::walk::compare::{Comparison, compare};
use crate::walk::reconcile::reconcile;
use serde_json::Value;

/// The context of a write: the writer, the endpoint and the schema.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Shape of the kind, in the version of the request.
    pub shape: &'a Shape,
    /// Field manager of the request, or the name from the user agent. Empty means `unknown`.
    pub manager: &'a str,
    /// Group and version of the request, as in `apiVersion`.
    pub api_version: &'a str,
    /// Subresource of the request; none for the object itself.
    pub subresource: Option<&'a str>,
    /// Time of the write, RFC 3339 in UTC with whole seconds, so that times can be compared as text.
    pub now: &'a str,
    /// Paths of fields that this endpoint never changes: `status` for an object with that subresource, `metadata` and
    /// `spec` for the status itself. Segments are names, separated by dots.
    pub reset: &'a [&'a str],
    /// The fields that every object has before the first write. The creator does not become their owner.
    pub blank: &'a Value,
}

impl Write<'_> {
    pub(crate) fn manager(&self, operation: Operation) -> Manager {
        let name = if self.manager.is_empty() { "unknown" } else { self.manager };
        Manager {
            name: name.to_string(),
            operation,
            api_version: if operation == Operation::Apply {
                String::new()
            } else {
                self.api_version.to_string()
            },
            subresource: self.subresource.unwrap_or_default().to_string(),
        }
    }

    pub(crate) fn reset_fields(&self) -> FieldSet {
        let mut set = FieldSet::default();
        for path in self.reset {
            let path: Vec<_> = path.split('.').map(Element::field).collect();
            set.insert(&path);
        }
        set
    }

    /// Compares two objects, without the fields that this subresource does not change.
    pub(crate) fn compare(&self, old: &Value, new: &Value) -> Comparison {
        compare(&self.shape.root, old, new).without(&self.reset_fields())
    }

    /// Reads the sets of all managers as the schema of today has it.
    pub(crate) fn reconcile(&self, managed: &mut Managed) {
        for owned in managed.fields.values_mut() {
            owned.set = reconcile(&self.shape.root, std::mem::take(&mut owned.set));
        }
    }
}

/// Takes what changed from everyone but the writer. Without force, what others own and the writer changes is a
/// conflict, and nothing is taken.
pub(crate) fn take(
    managed: &mut Managed,
    comparison: &Comparison,
    writer: &Manager,
    force: bool,
) -> Result<(), Conflicts> {
    if managed.fields.is_empty() {
        return Ok(());
    }
    let changed = comparison.modified.clone().union(comparison.added.clone());
    let others = managed.fields.iter().filter(|(manager, _)| *manager != writer);
    let conflicts: Vec<_> = others
        .map(|(manager, owned)| (manager, owned.set.intersection(&changed)))
        .filter(|(_, set)| !set.is_empty())
        .collect();
    if !force && !conflicts.is_empty() {
        return Err(Conflicts::of(conflicts.iter().map(|(manager, set)| (*manager, set))));
    }
    for (manager, owned) in &mut managed.fields {
        if manager != writer {
            let set = std::mem::take(&mut owned.set);
            let taken = set.intersection(&changed);
            owned.set = set.difference(&taken).difference(&comparison.removed);
        }
    }
    managed.fields.retain(|_, owned| !owned.set.is_empty());
    Ok(())
}
