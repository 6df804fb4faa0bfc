//! What a change costs, field by field. Planner, hooks, `capstan plan` and the documentation ask this one table.
//!
//! [`changes`] compares two objects of a kind; every difference comes with the field's name, what it was, what it is to
//! be (as far as that may be shown) and its [`Cost`]. A field that is in no class cannot be compiled past the tests:
//! they walk the schemas.

mod diff;
mod reference;
mod show;
mod table;
mod version;

use capstan_api::bootstrap::CapstanConfigSpec;
use serde_json::{Value, json};

use crate::error::InputError;

pub use capstan_planner::change::{Change, Cost};
pub use reference::reference;
pub use table::{Field, Rule, Subject, field, fields};

/// What a user asked for and cannot have is a change that cannot be made.
impl From<InputError> for Change {
    fn from(error: InputError) -> Self {
        Self::new(error.field, Cost::Refused, error.message)
    }
}

/// Every field of two objects of a kind that differs, with its cost. Labels, annotations and spec are compared;
/// status, and what an API server keeps about an object, are not.
pub fn changes(subject: Subject, current: &Value, desired: &Value) -> Vec<Change> {
    diff::changes(subject, current, desired)
}

/// The worst of them.
pub fn worst<'a>(changes: impl IntoIterator<Item = &'a Change>) -> Cost {
    changes.into_iter().map(|change| change.cost).max().unwrap_or(Cost::Nothing)
}

/// A machine's version and setup.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Kubernetes version.
    pub version: &'a str,
    /// The rest.
    pub config: &'a CapstanConfigSpec,
}

/// What differs between two setups: `spec.version` of the Machine, and the fields of the CapstanConfig.
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
