//! What is recorded of healing, in an annotation of the Machine.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Inputs of plans that cause a healing step: each new value takes effect once. They are kept after the machine has
/// recovered, because a plan without them would be another plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// A new value restarts Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<String>,
    /// A new value applies the whole plan again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reapply: Option<String>,
    /// The boot ID of the boot that must end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot: Option<String>,
}

/// Healing in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Active {
    /// When the machine was found unhealthy.
    pub since: Timestamp,
    /// Number of steps that have begun.
    pub begun: usize,
    /// When the last step began.
    pub at: Timestamp,
    /// The tokens before that step, which are restored if the machine recovers before the step has an effect.
    #[serde(default)]
    pub before: Tokens,
}

/// Healing that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Healed {
    /// When the machine was healthy again.
    pub at: Timestamp,
    /// Number of steps that were taken.
    pub steps: usize,
}

/// The healing record of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Tokens that are inputs of its plans.
    #[serde(default)]
    pub tokens: Tokens,
    /// Healing in progress, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<Active>,
    /// The last healing that has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healed: Option<Healed>,
}
