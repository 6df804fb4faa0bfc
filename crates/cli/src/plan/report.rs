//! A plan as data: the output of `-o json`, and the source of the text for people.

use capstan_distro::{Change, Cost};
use serde::{Serialize, Serializer};

/// The effects of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Plan {
    /// The objects of the manifests.
    pub(crate) objects: Vec<Object>,
    /// The affected machines: first those that change, in order.
    pub(crate) machines: Vec<Machine>,
    /// Changes that a controller would refuse; then no machine changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) refusals: Vec<Refusal>,
    /// Further notes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
    /// Whether an object or a machine would change.
    pub(crate) changes: bool,
    /// Whether the server or a controller would refuse something.
    pub(crate) refused: bool,
}

/// What would happen to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Action {
    Create,
    Change,
    Unchanged,
    /// The server would reject it.
    Refused,
}

/// One object of the manifests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Object {
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) action: Action,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) fields: Vec<Field>,
    /// Why the server would reject it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) refusals: Vec<Refusal>,
}

/// One field that would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Field {
    pub(crate) field: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
    /// Its cost class, if the field is in the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<&'static str>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
    /// Where the new value comes from, if it comes from the configuration of a Host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<String>,
}

impl From<&Change> for Field {
    fn from(change: &Change) -> Self {
        Self {
            field: change.field.clone(),
            from: change.from.clone(),
            to: change.to.clone(),
            cost: Some(change.cost.name()),
            why: change.why.to_string(),
            origin: change.origin.clone(),
        }
    }
}

/// A change that is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Refusal {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) field: String,
    pub(crate) reason: String,
}

impl Refusal {
    pub(crate) fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

/// What would happen to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Nothing,
    Live,
    Restart,
    DrainAndRestart,
    Reboot,
    Replace,
    Create,
    Delete,
    Refused,
}

impl Outcome {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Live => "live",
            Self::Restart => "restart",
            Self::DrainAndRestart => "drain and restart",
            Self::Reboot => "reboot",
            Self::Replace => "replace",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Refused => "refused",
        }
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl From<Cost> for Outcome {
    fn from(cost: Cost) -> Self {
        match cost {
            Cost::Nothing => Self::Nothing,
            Cost::Live => Self::Live,
            Cost::Restart => Self::Restart,
            Cost::DrainAndRestart => Self::DrainAndRestart,
            Cost::Reboot => Self::Reboot,
            Cost::Replace => Self::Replace,
            Cost::Refused => Self::Refused,
        }
    }
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Machine {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Kind and name of the owner of the machine.
    pub(crate) owner: String,
    pub(crate) outcome: Outcome,
    /// Position in the order, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<usize>,
    /// Whether the Machine stays and keeps its host.
    pub(crate) kept: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) fields: Vec<Field>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

impl Plan {
    /// Sorts the machines, and computes `changes` and `refused`.
    pub(crate) fn sum_up(mut self) -> Self {
        self.machines.sort_by(|a, b| {
            let key = |machine: &Machine| (machine.step.is_none(), machine.step, machine.name.clone());
            key(a).cmp(&key(b))
        });
        let is_change = |object: &Object| matches!(object.action, Action::Create | Action::Change);
        self.changes = self.objects.iter().any(is_change);
        self.refused = !self.refusals.is_empty()
            || self.objects.iter().any(|object| !object.refusals.is_empty())
            || self.machines.iter().any(|machine| machine.outcome == Outcome::Refused);
        self
    }
}
