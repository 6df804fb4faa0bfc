//! The part of a report about the program of the agent itself.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Digest;

/// The program of the agent, and its replacement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportedProgram {
    /// Digest of the program that runs.
    pub sha256: Digest,

    /// Whether it has replaced another one and is not confirmed yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_trial: bool,

    /// The program in the plan that does not work on this machine. It is not tried again until the plan names another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<RejectedProgram>,

    /// Why the program in the plan is not tried yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A program that does not work on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RejectedProgram {
    /// Its digest.
    pub sha256: Digest,

    /// What is wrong with it, for users.
    pub message: String,

    /// When it was found out.
    #[serde(with = "crate::time")]
    pub since: Timestamp,
}
