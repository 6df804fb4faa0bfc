//! What is recorded of healing, in an annotation of the Machine.

use capstan_api::core::Machine;
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};

use crate::names::HEALING;

/// What plans are made from beside everything else: each value that was not there before does its work once. Kept after
/// the machine has recovered, because a plan without them would be another plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tokens {
    /// Kubernetes is restarted once for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) restart: Option<String>,
    /// The whole plan is carried out again once for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reapply: Option<String>,
    /// The boot that the machine must leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reboot: Option<String>,
}

/// Healing that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Active {
    /// When the machine was found ill.
    pub(crate) since: Timestamp,
    /// How many steps have begun.
    pub(crate) begun: usize,
    /// When the last one began.
    pub(crate) at: Timestamp,
    /// What plans were made from before that step: comes back if the machine recovers before the step has had any effect.
    #[serde(default)]
    pub(crate) before: Tokens,
}

/// Healing that came to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Healed {
    /// When the machine was well again.
    pub(crate) at: Timestamp,
    /// How many steps it had taken.
    pub(crate) steps: usize,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    #[serde(default)]
    pub(crate) tokens: Tokens,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) active: Option<Active>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) healed: Option<Healed>,
}

impl Record {
    /// What a Machine's annotation says. One that cannot be read counts as none: the next step writes it again.
    pub(crate) fn of(machine: &Machine) -> Self {
        let text = machine.annotations().get(HEALING);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}
