//! How the agent replaces its own program, and goes back if the new one does not work.
//!
//! | file | content |
//! |---|---|
//! | `program` | what systemd starts |
//! | `next` | a program that is being checked |
//! | `previous` | the program before the last replacement. systemd starts it as the guard before each start of `program` |
//! | `state` | how far a replacement is; there is none while nothing is to be known |
//!
//! The guard counts the starts of a program that is not confirmed, and puts the previous one back if there were too many, or if
//! the time is over. So the way back needs nothing of the new program. Each file is written whole or not at all, and a replacement
//! continues from `state` after a crash at any point.
//!
//! The journal does not know of replacements: while the guard writes, the agent may have the journal open.

mod decide;
mod guard;

pub use decide::{GuardStep, Occasion, UpgradeStep, at_rest, at_start};
pub use guard::{Guarded, guard};

use capstan_plan::{AgentProgram, Artifact, Digest, MachinePath};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

use crate::machine::{Found, Machine, MachineError, Metadata};

/// A new program must have read its plan from the management plane within this time.
pub const CONFIRMATION: Duration = Duration::from_secs(600);

/// A program that was started so often and is not confirmed is not started again.
pub const MOST_STARTS: u32 = 3;

/// The word with which a program checks whether it could work on this machine. It writes nothing.
pub const CHECK: &str = "check";

/// Bytes of a state.
const LARGEST_STATE: u64 = 4 * 1024 * 1024;

/// The files of a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The program that systemd starts.
    pub program: MachinePath,
    /// The program that is being checked.
    pub next: MachinePath,
    /// The program before the last replacement.
    pub previous: MachinePath,
    /// How far a replacement is.
    pub state: MachinePath,
    /// The unit of the agent.
    pub unit: MachinePath,
    /// What is in the unit: it starts `previous` as the guard, and then `program`.
    pub unit_content: String,
    /// Owner of the files: the user that the agent runs as.
    pub owner: u32,
    /// Group of the files.
    pub group: u32,
}

/// How far a replacement is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "camelCase")]
pub enum UpgradeState {
    /// There is none.
    #[default]
    Idle,
    /// The program is about to be replaced, or was replaced and is not confirmed.
    Trial {
        /// By which.
        to: AgentProgram,
        /// Digest of the previous one.
        from: Digest,
        /// How often the new one was started.
        starts: u32,
    },
    /// The previous program is being put back.
    Returning {
        /// The program that does not work.
        to: AgentProgram,
        /// Digest of the previous one.
        from: Digest,
        /// What is wrong with it.
        reason: String,
    },
    /// A program does not work on this machine.
    Rejected {
        /// Which.
        program: AgentProgram,
        /// What is wrong with it.
        reason: String,
        /// When it was found out.
        since: Timestamp,
    },
}

impl Places {
    /// How far the replacement is. What cannot be understood counts as none: it was not written by an agent.
    pub(crate) async fn read(&self, machine: &impl Machine) -> Result<UpgradeState, MachineError> {
        let Found::File { .. } = machine.inspect(&self.state).await? else { return Ok(UpgradeState::Idle) };
        let bytes = machine.read(&self.state, LARGEST_STATE).await?;
        Ok(serde_json::from_slice(&bytes).unwrap_or_default())
    }

    pub(crate) async fn write(
        &self,
        machine: &impl Machine,
        state: &UpgradeState,
    ) -> Result<(), MachineError> {
        if *state == UpgradeState::Idle {
            return machine.remove_file(&self.state).await;
        }
        let bytes = serde_json::to_vec(state).map_err(|error| MachineError::io("write the state", error))?;
        machine.write(&self.state, &bytes, self.metadata(0o600)).await
    }

    /// Puts a program at a path.
    pub(crate) async fn put(
        &self,
        machine: &impl Machine,
        path: &MachinePath,
        program: &[u8],
    ) -> Result<(), MachineError> {
        machine.write(path, program, self.metadata(0o755)).await
    }

    /// A program of a plan as a file at a path.
    pub(crate) fn artifact(&self, program: &AgentProgram, path: &MachinePath) -> Artifact {
        Artifact { owner: self.owner, group: self.group, ..program.at(path.clone()) }
    }

    pub(crate) const fn metadata(&self, mode: u32) -> Metadata {
        Metadata { mode, owner: self.owner, group: self.group }
    }
}
