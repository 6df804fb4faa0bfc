//! What can go wrong, and what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::requirements::Missing;

/// Why something could not be done with a machine. Each says what to do where there is something to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This machine cannot have machines as it is.
    #[error("machines cannot be made here:{}", bullets(.0))]
    Missing(Vec<Missing>),
    /// A file or folder could not be read or written.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A program could not be started or failed.
    #[error("`{command}` failed: {said}{remedy}")]
    Command {
        /// The program and what it was told. No secret is ever among its arguments.
        command: String,
        /// The end of what it said.
        said: String,
        /// What to do, or nothing.
        remedy: &'static str,
    },
    /// A name that a machine cannot have.
    #[error("{name:?} cannot be a machine's name: use 1 to 32 of a-z, 0-9 and `-`, beginning with a letter")]
    Name {
        /// The name.
        name: String,
    },
    /// There is a machine of this name.
    #[error("there is a machine {name} already: remove it first, or take another name")]
    Exists {
        /// The name.
        name: String,
    },
    /// The root file system is not one.
    #[error("{} is not a root file system of a machine: {why}; `make tools` builds one", path.display())]
    Root {
        /// Where it was looked for.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The bridge cannot be used.
    #[error("the bridge {bridge} cannot be used: {why}")]
    Bridge {
        /// Its name.
        bridge: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Every subnet or every address is taken.
    #[error("no free {what}: remove machines that are not needed")]
    Full {
        /// What there is none of.
        what: &'static str,
    },
    /// No cgroups that machines could have.
    #[error("machines need cgroups: {why}")]
    Cgroups {
        /// What is missing, and what to do.
        why: &'static str,
    },
    /// It did not happen in time.
    #[error("{machine}: waited {} s in vain {what}; the end of its console:\n{console}", deadline.as_secs())]
    Deadline {
        /// The machine.
        machine: String,
        /// For what.
        what: &'static str,
        /// How long.
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
