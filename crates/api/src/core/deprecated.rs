//! What v1beta1 kept in status and v1beta2 still carries along under `status.deprecated.v1beta1`.
//!
//! Capstan never acts on these fields. They exist so that objects written by others stay whole, and so
//! that readers of the old shape find what they look for until the contract drops it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Fields of earlier API versions, by version.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deprecated<V1Beta1> {
    /// Status fields that only v1beta1 had. Do not build on them: they will be removed.
    pub v1beta1: Option<V1Beta1>,
}

impl<V1Beta1> Default for Deprecated<V1Beta1> {
    fn default() -> Self {
        Self { v1beta1: None }
    }
}

/// A condition of the v1beta1 shape.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct V1Beta1Condition {
    /// What is observed.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 256))]
    pub type_: String,

    /// `True`, `False` or `Unknown`.
    pub status: String,

    /// How bad it is when the status is `False`: `Error`, `Warning` or `Info`; empty otherwise.
    #[schemars(length(max = 32))]
    pub severity: Option<String>,

    /// When the condition last changed.
    pub last_transition_time: Time,

    /// Why, as one CamelCase word.
    #[schemars(length(min = 1, max = 256))]
    pub reason: Option<String>,

    /// Why, for people.
    #[schemars(length(min = 1, max = 10240))]
    pub message: Option<String>,
}

/// What most kinds carried in v1beta1: conditions and a terminal failure.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct V1Beta1Failure {
    /// Conditions of the v1beta1 shape.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<V1Beta1Condition>,

    /// A terminal problem, as one word for programs.
    pub failure_reason: Option<String>,

    /// The same problem for people.
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,
}

/// What kinds without a terminal failure carried in v1beta1: conditions alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct V1Beta1Conditions {
    /// Conditions of the v1beta1 shape.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<V1Beta1Condition>,
}
