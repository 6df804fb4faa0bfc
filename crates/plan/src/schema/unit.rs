//! Units of systemd.

use serde::{Deserialize, Serialize};

use super::Argv;
use crate::{Content, MachinePath, RestartToken, UnitName};

/// Where unit files are put.
const FOLDER: &str = "/etc/systemd/system";

/// A unit of systemd: its file is there, it is enabled and it runs. It is restarted when the inputs of its step
/// differ from those it was last started with; another content alone restarts nothing. When it leaves the plan it is
/// stopped, and then its file leaves the machine.
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
        MachinePath::new(format!("{FOLDER}/{}", self.name)).expect("a unit name is a plain part of a path")
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

/// The plan waits here until somebody opens the gate of this step's name for exactly this plan
/// ([`OpenGates`](crate::OpenGates)). Waiting is no attempt: it has no timeout and is not retried. A gate that was
/// passed stays passed in its plan, and is closed again in the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gate {}
