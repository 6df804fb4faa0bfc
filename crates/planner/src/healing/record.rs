//! What is recorded of healing, in an annotation of the Machine.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What plans are made from beside everything else: each value that was not there before does its work once. Kept after
/// the machine has recovered, because a plan without them would be another plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// Kubernetes is restarted once for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<String>,
    /// The whole plan is carried out again once for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reapply: Option<String>,
    /// The boot that the machine must leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot: Option<String>,
}

/// Healing that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Active {
    /// When the machine was found ill.
    pub since: Timestamp,
    /// How many steps have begun.
    pub begun: usize,
    /// When the last one began.
    pub at: Timestamp,
    /// What plans were made from before that step: comes back if the machine recovers before the step has had any effect.
    #[serde(default)]
    pub before: Tokens,
}

/// Healing that came to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Healed {
    /// When the machine was well again.
    pub at: Timestamp,
    /// How many steps it had taken.
    pub steps: usize,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// What plans are made from because of it.
    #[serde(default)]
    pub tokens: Tokens,
    /// What is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<Active>,
    /// How the last illness ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healed: Option<Healed>,
}
