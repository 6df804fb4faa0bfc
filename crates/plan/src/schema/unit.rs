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
    /// Its name, with the ending that says what it is.
    pub name: UnitName,

    /// What is in its file. No place for a secret: everybody on the machine may read it.
    pub content: Content,

    /// Fingerprint of what it is started with. Another one restarts it.
    pub restart: RestartToken,

    /// What ends whatever the unit leaves behind, after it was stopped for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
}

impl Unit {
    /// Where its file is.
    pub fn path(&self) -> MachinePath {
        MachinePath::new(format!("{FOLDER}/{}", self.name)).expect("a unit name is a plain part of a path")
    }
}

/// Ends what a unit leaves behind. Must succeed when there is nothing to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stop {
    /// What to run.
    pub argv: Argv,

    /// How long it may take.
    pub timeout_seconds: u32,
}

/// The plan waits here until somebody opens the gate of this step's name for exactly this plan
/// ([`OpenGates`](crate::OpenGates)). Waiting is no attempt: it has no timeout and is not retried. A gate that was
/// passed stays passed in its plan, and is closed again in the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gate {}
