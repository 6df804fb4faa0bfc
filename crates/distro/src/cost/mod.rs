//! The cost of a change, field by field. The planner, the hooks, `capstan plan` and the documentation use this table.
//!
//! [`changes`] compares two objects of a kind. Every difference has the path of the field, the old and the new value
//! (unless they must not be shown) and its [`Cost`]. Tests walk the schemas and fail if a field is in no class.

mod diff;
mod on_host;
mod reference;
mod show;
mod table;
mod version;

use capstan_api::bootstrap::CapstanConfigSpec;
use serde_json::{Value, json};

use crate::error::InputError;

pub use capstan_planner::change::{Change, Cost};
pub use on_host::classify_on;
pub use reference::reference;
pub use table::{Field, Rule, Subject, field, fields};

/// A configuration error is a change that is refused.
impl From<InputError> for Change {
    fn from(error: InputError) -> Self {
        Self::new(error.place(), Cost::Refused, error.message)
    }
}

/// All fields in which two objects of a kind differ, with their costs. Labels, annotations and spec are compared;
/// status and server-managed metadata are not.
pub fn changes(subject: Subject, current: &Value, desired: &Value) -> Vec<Change> {
    diff::changes(subject, current, desired)
}

/// The highest cost of these changes.
pub fn worst<'a>(changes: impl IntoIterator<Item = &'a Change>) -> Cost {
    changes.into_iter().map(|change| change.cost).max().unwrap_or(Cost::Nothing)
}

/// Version and configuration of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Kubernetes version.
    pub version: &'a str,
    /// The configuration.
    pub config: &'a CapstanConfigSpec,
}

/// The differences between two setups: `spec.version` of the Machine, and the fields of the CapstanConfig.
pub fn classify(old: Setup<'_>, new: Setup<'_>) -> Vec<Change> {
    let mut all = Vec::new();
    if old.version != new.version {
        let version = |version: &str| json!({"spec": {"version": version}});
        all.extend(changes(Subject::Machine, &version(old.version), &version(new.version)));
    }
    if old.config != new.config {
        let config = |config: &CapstanConfigSpec| json!({"spec": config});
        all.extend(changes(Subject::Config, &config(old.config), &config(new.config)));
    }
    all
}

#[cfg(test)]
mod tests;
