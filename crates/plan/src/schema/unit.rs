//! systemd units.

use serde::{Deserialize, Serialize};

use super::Argv;
use crate::{Content, MachinePath, RestartToken, UnitName};

/// Where unit files are put.
const FOLDER: &str = "/etc/systemd/system";

/// A systemd unit: its file is installed, it is enabled and active. It is restarted when the inputs of its step differ
/// from those of its last start; a change of its content alone does not restart it. When it is no longer in the plan,
/// it is stopped, and then its file is removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unit {
    /// Its name, with the suffix that says its type.
    pub name: UnitName,

    /// Content of its file. It must not contain secrets, because all users of the machine can read it.
    pub content: Content,

    /// Fingerprint of its configuration. A change restarts the unit.
    pub restart: RestartToken,

    /// A command that stops what the unit leaves running, after the unit is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
}

impl Unit {
    /// Path of its file.
    pub fn path(&self) -> MachinePath {
        Self::path_of(&self.name)
    }

    /// Path of the file of the unit with this name.
    pub fn path_of(name: &UnitName) -> MachinePath {
        MachinePath::new(format!("{FOLDER}/{name}")).expect("a unit name is a plain part of a path")
    }
}

/// Stops what a unit leaves running. It must succeed if there is nothing to stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stop {
    /// The command.
    pub argv: Argv,

    /// Timeout.
    pub timeout_seconds: u32,
}

/// The plan waits here until the manager opens the gate with the name of this step for exactly this plan
/// ([`OpenGates`](crate::OpenGates)). Waiting does not count as an attempt: it has no timeout and no retries. A gate
/// that was passed stays passed in its plan, and is closed again in the next plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gate {}
