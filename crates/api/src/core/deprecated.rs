//! Status fields of v1beta1 that v1beta2 keeps under `status.deprecated.v1beta1`.
//!
//! Capstan does not act on these fields. They exist so that Capstan keeps what other programs wrote, and so that
//! clients of the v1beta1 format find their fields until the contract removes them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Deprecated fields, by API version.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deprecated<V1Beta1> {
    /// Status fields that exist only in v1beta1. Do not rely on them: they will be removed.
    pub v1beta1: Option<V1Beta1>,
}

impl<V1Beta1> Default for Deprecated<V1Beta1> {
    fn default() -> Self {
        Self { v1beta1: None }
    }
}

/// A condition in the v1beta1 format.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct V1Beta1Condition {
    /// Type of the condition.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 256))]
    pub type_: String,

    /// `True`, `False` or `Unknown`.
    pub status: String,

    /// Severity if the status is `False`: `Error`, `Warning` or `Info`. Empty otherwise.
    #[schemars(length(max = 32))]
    pub severity: Option<String>,

    /// Time of the last change of the condition.
    #[schemars(with = "crate::schema::TimeSchema")]
    pub last_transition_time: Time,

    /// Machine-readable reason in CamelCase.
    #[schemars(length(min = 1, max = 256))]
    pub reason: Option<String>,

    /// Human-readable message.
    #[schemars(length(min = 1, max = 10240))]
    pub message: Option<String>,
}

/// v1beta1 fields of most kinds: conditions and a terminal failure.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct V1Beta1Failure {
    /// Conditions in the v1beta1 format.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<V1Beta1Condition>,

    /// Machine-readable reason of a terminal failure.
    pub failure_reason: Option<String>,

    /// Human-readable description of the terminal failure.
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,
}

/// v1beta1 fields of kinds without a terminal failure: only conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct V1Beta1Conditions {
    /// Conditions in the v1beta1 format.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<V1Beta1Condition>,
}
