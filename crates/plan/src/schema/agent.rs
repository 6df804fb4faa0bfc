//! The program of the agent itself.

use serde::{Deserialize, Serialize};

use super::{Artifact, Source};
use crate::{Digest, MachinePath, Mode};

/// The program that the agent should run as. An agent that runs as another one replaces itself when the steps of the plan have ended
/// or wait at a gate, whatever came of them. It goes back by itself if the new program does not work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentProgram {
    /// Digest of the program. A file with another digest is discarded.
    pub sha256: Digest,

    /// Exact size of the program in bytes.
    pub size: u64,

    /// Download sources. They are tried in this order.
    pub sources: Vec<Source>,
}

impl AgentProgram {
    /// The program as a file at a path.
    pub fn at(&self, path: MachinePath) -> Artifact {
        let Self { sha256, size, sources } = self.clone();
        Artifact { sha256, size, sources, path, unpack: None, mode: Mode::EXECUTABLE, owner: 0, group: 0 }
    }
}
