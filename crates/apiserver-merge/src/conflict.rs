//! Conflicts: fields of other managers that an apply would change, with the messages of a kube-apiserver.

use crate::fields::FieldSet;
use crate::gotext::quote;
use crate::managed::{Manager, Operation};
use std::fmt;

/// A field that another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The manager that owns it.
    pub manager: Manager,
    /// Path, such as `.spec.list[name="a"].value`.
    pub field: String,
}

impl Conflict {
    /// The message of the cause in the `Status`. The reason of the cause is `FieldManagerConflict`, and its field is
    /// `field`.
    pub fn message(&self) -> String {
        format!("conflict with {}", ManagerDisplay(&self.manager))
    }
}

/// All fields of other managers that an apply without force would change. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", summary(.0))]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflicts {
    pub(crate) fn of<'a>(fields: impl Iterator<Item = (&'a Manager, &'a FieldSet)>) -> Conflicts {
        let mut fields: Vec<_> = fields.collect();
        fields.sort_by_cached_key(|(manager, _)| manager.identifier());
        let conflicts = fields.into_iter().flat_map(|(manager, set)| {
            let texts =
                set.paths().into_iter().map(|path| path.iter().map(ToString::to_string).collect::<String>());
            texts.map(|field| Conflict { manager: manager.clone(), field })
        });
        Conflicts(conflicts.collect())
    }
}

fn summary(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!("Apply failed with 1 conflict: {}: {}", one.message(), one.field);
    }
    let mut lines = Vec::new();
    let mut last = None;
    for conflict in conflicts {
        if last != Some(&conflict.manager) {
            lines.push(format!("conflicts with {}:", ManagerDisplay(&conflict.manager)));
            last = Some(&conflict.manager);
        }
        lines.push(format!("- {}", conflict.field));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// A manager as conflicts name it.
struct ManagerDisplay<'a>(&'a Manager);

impl fmt::Display for ManagerDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Manager { name, operation, api_version, subresource } = self.0;
        f.write_str(&quote(name))?;
        if !subresource.is_empty() {
            write!(f, " with subresource {}", quote(subresource))?;
        }
        if *operation == Operation::Update {
            write!(f, " using {api_version}")?;
        }
        Ok(())
    }
}
