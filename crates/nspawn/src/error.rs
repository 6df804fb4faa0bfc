//! The errors of this crate, with remedies.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::requirements::Missing;

/// Why an operation failed. The message contains a remedy if there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This computer lacks something that machines need.
    #[error("machines cannot be made here:{}", bullets(.0))]
    Missing(Vec<Missing>),
    /// A file or folder could not be read or written.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A program could not be started or failed.
    #[error("`{command}` failed: {said}{remedy}")]
    Command {
        /// The program and its arguments. Arguments never contain a secret.
        command: String,
        /// The end of its output.
        said: String,
        /// The remedy; empty if there is none.
        remedy: &'static str,
    },
    /// The name is not valid for a machine.
    #[error("{name:?} cannot be a machine's name: use 1 to 32 of a-z, 0-9 and `-`, beginning with a letter")]
    Name {
        /// The name.
        name: String,
    },
    /// A machine with this name already exists.
    #[error("there is a machine {name} already: remove it first, or take another name")]
    Exists {
        /// The name.
        name: String,
    },
    /// The folder is not a root file system.
    #[error("{} is not a root file system of a machine: {why}; `make tools` builds one", path.display())]
    Root {
        /// Path of the folder.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// The bridge cannot be used.
    #[error("the bridge {bridge} cannot be used: {why}")]
    Bridge {
        /// Name of the bridge.
        bridge: String,
        /// The problem.
        why: &'static str,
    },
    /// All subnets or all addresses are in use.
    #[error("no free {what}: remove machines that are not needed")]
    Full {
        /// What is exhausted.
        what: &'static str,
    },
    /// No usable cgroup hierarchy.
    #[error("machines need cgroups: {why}")]
    Cgroups {
        /// What is missing, and the remedy.
        why: &'static str,
    },
    /// A deadline has passed.
    #[error("{machine}: waited {} s in vain {what}; the end of its console:\n{console}", deadline.as_secs())]
    Deadline {
        /// Name of the machine.
        machine: String,
        /// What the caller waited for.
        what: &'static str,
        /// The deadline.
        deadline: Duration,
        /// The last lines of the machine's console.
        console: String,
    },
}

impl Error {
    /// For `map_err`: something was tried with a path.
    pub(crate) fn io(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { what, path, source }
    }
}

fn bullets(items: &[impl fmt::Display]) -> String {
    items.iter().map(|item| format!("\n  - {item}")).collect()
}

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;
