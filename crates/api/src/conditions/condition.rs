//! The condition itself, as it stands in `status.conditions`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

use crate::schema::{CONDITION_TYPE, REASON};

/// One observation about an object: is something so, since when, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What is observed, in CamelCase or prefixed as in `example.com/CamelCase`.
    #[serde(rename = "type")]
    #[schemars(length(max = 316), regex(pattern = CONDITION_TYPE))]
    pub type_: String,

    /// Whether it is so.
    pub status: ConditionStatus,

    /// The `metadata.generation` of the object that was looked at. An older generation than the object's
    /// means that the condition does not speak of the newest spec yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// When `status` last changed from one value to another.
    pub last_transition_time: Time,

    /// Why the status is what it is, as one CamelCase word for programs to act on.
    #[schemars(length(min = 1, max = 1024), regex(pattern = REASON))]
    pub reason: String,

    /// The same for people. May be empty.
    #[schemars(length(max = 32768))]
    pub message: String,
}

impl Condition {
    /// Whether both say the same: everything but the transition time is equal.
    pub fn has_same_state(&self, other: &Self) -> bool {
        self.has_same_state_except_generation(other)
            && self.observed_generation.unwrap_or_default() == other.observed_generation.unwrap_or_default()
    }

    /// Whether both say the same, perhaps of different generations of the object.
    pub fn has_same_state_except_generation(&self, other: &Self) -> bool {
        self.type_ == other.type_
            && self.status == other.status
            && self.reason == other.reason
            && self.message == other.message
    }
}

/// The three things a condition can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// Nobody can tell at the moment.
    Unknown,
}

impl From<bool> for ConditionStatus {
    fn from(so: bool) -> Self {
        if so { Self::True } else { Self::False }
    }
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        })
    }
}
