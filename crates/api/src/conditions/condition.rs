//! The condition in `status.conditions`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

use crate::schema::{CONDITION_TYPE, REASON};

/// One observation about an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition in CamelCase, optionally with a prefix, as in `example.com/CamelCase`.
    #[serde(rename = "type")]
    #[schemars(length(max = 316), regex(pattern = CONDITION_TYPE))]
    pub type_: String,

    /// Status of the condition: `True`, `False` or `Unknown`.
    pub status: ConditionStatus,

    /// `metadata.generation` of the object that was observed. If it is lower than the object's generation, the
    /// condition does not reflect the current spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// Time of the last change of `status`.
    #[schemars(with = "crate::schema::TimeSchema")]
    pub last_transition_time: Time,

    /// Machine-readable reason for the status, in CamelCase.
    #[schemars(length(min = 1, max = 1024), regex(pattern = REASON))]
    pub reason: String,

    /// Human-readable message. May be empty.
    #[schemars(length(max = 32768))]
    pub message: String,
}

impl Condition {
    /// Whether both are equal except for the transition time.
    pub fn has_same_state(&self, other: &Self) -> bool {
        self.has_same_state_except_generation(other)
            && self.observed_generation.unwrap_or_default() == other.observed_generation.unwrap_or_default()
    }

    /// Whether both are equal except for the transition time and the generation.
    pub fn has_same_state_except_generation(&self, other: &Self) -> bool {
        self.type_ == other.type_
            && self.status == other.status
            && self.reason == other.reason
            && self.message == other.message
    }
}

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// The condition is met.
    True,
    /// The condition is not met.
    False,
    /// The status cannot be determined.
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
