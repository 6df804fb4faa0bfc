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
use std::borrow::Cow;
use std::fmt;

use crate::error::InputError;

pub use reference::reference;
pub use table::{Field, Rule, Subject, field, fields};

/// What happens to a machine because of a change; the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// Nothing.
    Nothing,
    /// Something is written or run; Kubernetes on the machine does not notice.
    Live,
    /// Kubernetes on the machine is started again. Pods keep running.
    Restart,
    /// Pods are moved away first.
    DrainAndRestart,
    /// The machine itself is started again.
    Reboot,
    /// It cannot be done to this machine, only to another one in its place.
    Replace,
    /// It cannot be done at all.
    Refused,
}

impl Cost {
    /// Whether it can be done to the machine as it stands.
    pub const fn is_in_place(self) -> bool {
        !matches!(self, Self::Replace | Self::Refused)
    }

    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Live => "live",
            Self::Restart => "restart",
            Self::DrainAndRestart => "drain and restart",
            Self::Reboot => "reboot",
            Self::Replace => "replace",
            Self::Refused => "refused",
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One field that differs, and what that costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Path of the field in its object, as in `spec.settings.disable` or `spec.files[/etc/motd].content`.
    pub field: String,
    /// What it was, as far as that may be shown; absent if it was not set.
    pub from: Option<String>,
    /// What it is to be, as far as that may be shown; absent if it is not set.
    pub to: Option<String>,
    /// What it costs.
    pub cost: Cost,
    /// Why, for people. Never repeats a value.
    pub why: Cow<'static, str>,
}

impl Change {
    /// A change whose values are not shown.
    pub fn new(field: impl Into<String>, cost: Cost, why: impl Into<Cow<'static, str>>) -> Self {
        Self { field: field.into(), from: None, to: None, cost, why: why.into() }
    }
}

/// What a user asked for and cannot have is a change that cannot be made.
impl From<InputError> for Change {
    fn from(error: InputError) -> Self {
        Self::new(error.field, Cost::Refused, error.message)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.why)
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
