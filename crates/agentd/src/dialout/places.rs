//! Where everything of a registered machine lies. Plans do not write here, and a reset removes nothing of it.

use std::path::{Path, PathBuf};

use crate::paths::{HOST_BINARY, HOST_ETC, HOST_STATE, HOST_UNIT, Paths};

/// Where everything lies, below the folder that stands for `/`.
#[derive(Clone, Debug)]
pub(super) struct Places<'p>(pub(super) &'p Paths);

impl Places<'_> {
    /// The key of the machine. It is made here and stays here.
    pub(super) fn key(&self) -> PathBuf {
        self.etc().join("host.key")
    }

    /// The registration, with the credential.
    pub(super) fn registration(&self) -> PathBuf {
        self.etc().join("registration.json")
    }

    /// The last instruction and the answer to it.
    pub(super) fn journal(&self) -> PathBuf {
        self.state().join("journal.json")
    }

    pub(super) fn etc(&self) -> PathBuf {
        self.0.below(HOST_ETC)
    }

    pub(super) fn state(&self) -> PathBuf {
        self.0.below(HOST_STATE)
    }

    pub(super) fn binary(&self) -> PathBuf {
        self.0.below(HOST_BINARY)
    }

    pub(super) fn unit(&self) -> PathBuf {
        self.0.below(HOST_UNIT)
    }

    /// Whether this is the machine we run on, and not a folder that looks like one.
    pub(super) fn is_machine(&self) -> bool {
        self.0.is_machine()
    }

    pub(super) fn root(&self) -> &Path {
        self.0.root()
    }
}
