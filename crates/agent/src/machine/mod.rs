//! The operating system as the engine sees it.
//!
//! Small on purpose: a simulated machine implements thirteen functions and gets the whole engine. The three for commands
//! that outlive the agent have defaults, for machines whose commands end with it, and so has the one that saves reading. The rules an implementation must keep
//! stand beside each; the engine's crash safety rests on them.

mod command;
mod error;
mod output;

pub use command::{CommandKey, Resumed};
pub use error::MachineError;
pub(crate) use error::{is_full, remedy};
pub use output::{Capture, Captured};

use capstan_plan::{Argv, Artifact, Digest, EnvVar, Facts, HttpUrl, MachinePath};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

/// The operating system of a machine: files, units and processes.
pub trait Machine: Send + Sync {
    /// What is at a path. Follows no symbolic link: one on the way is an error, one at the path itself is
    /// [`Found::Other`]. Where a folder on the way is missing, there is nothing.
    fn inspect(&self, path: &MachinePath) -> impl Future<Output = Result<Found, MachineError>> + Send;

    /// What is in a regular file, if it is no larger than `most`.
    fn read(
        &self,
        path: &MachinePath,
        most: u64,
    ) -> impl Future<Output = Result<Vec<u8>, MachineError>> + Send;

    /// Puts a regular file there, in place of one that is. Whole and at once: whoever looks, also after a crash,
    /// sees the old file or the new one with its owner and mode. Durable when it returns.
    fn write(
        &self,
        path: &MachinePath,
        content: &[u8],
        metadata: Metadata,
    ) -> impl Future<Output = Result<(), MachineError>> + Send;

    /// Puts a folder there, or gives the one that is there this owner and mode. The folder above must exist.
    /// Durable when it returns.
    fn make_directory(
        &self,
        path: &MachinePath,
        metadata: Metadata,
    ) -> impl Future<Output = Result<(), MachineError>> + Send;

    /// Removes a regular file and nothing else. It is no error if there is none. Durable when it returns.
    fn remove_file(&self, path: &MachinePath) -> impl Future<Output = Result<(), MachineError>> + Send;

    /// Removes an empty folder and nothing else. It is no error if there is none; one that is not empty is
    /// [`MachineError::NotEmpty`]. Durable when it returns.
    fn remove_directory(&self, path: &MachinePath) -> impl Future<Output = Result<(), MachineError>> + Send;

    /// Puts an artifact in its place, where there is nothing or an artifact of the same sort. Fetches it first,
    /// unless it was fetched before. Whole and at once: whoever looks, also after a crash, sees what was there before
    /// or the whole artifact with its owners and modes. Durable when it returns. An archive that leads out of its
    /// folder, or holds anything but files, folders and links, is an error.
    fn install(
        &self,
        artifact: &Artifact,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), MachineError>> + Send;

    /// Whether an artifact is in its place as [`install`](Self::install) has put it, by its content. None if that cannot be
    /// found out, because what it was unpacked from is not at hand. Writes and fetches nothing.
    fn is_installed(
        &self,
        artifact: &Artifact,
    ) -> impl Future<Output = Result<Option<bool>, MachineError>> + Send;

    /// What changes when the file at a path is changed, or anything in the folder there: found out without reading content.
    /// None if there is no such thing; then the content is read whenever it is looked at.
    fn stamp(&self, _: &MachinePath) -> impl Future<Output = Result<Option<Digest>, MachineError>> + Send {
        async { Ok(None) }
    }

    /// Removes a folder with everything in it, following no link. It is no error if there is none. After a crash
    /// some of it may be left. Durable when it returns.
    fn remove_tree(&self, path: &MachinePath) -> impl Future<Output = Result<(), MachineError>> + Send;

    /// Forgets what was fetched, but these.
    fn keep_fetched(
        &self,
        digests: &BTreeSet<Digest>,
    ) -> impl Future<Output = Result<(), MachineError>> + Send;

    /// Runs a program to its end. An error means that it was not started, except for [`MachineError::Lost`]; whatever
    /// happened after that is in [`Ran`]. A program that outlives its timeout is ended together with all it has
    /// started. What it prints never makes it wait.
    ///
    /// A program without a key is ended if the future is dropped. One with a key may outlive the future and the agent;
    /// then [`commands`](Self::commands) and [`resume`](Self::resume) find it. At most one program with a key runs at
    /// any time: before one is started, all others are [dismissed](Self::dismiss).
    fn run(&self, invocation: Invocation<'_>) -> impl Future<Output = Result<Ran, MachineError>> + Send;

    /// The keys of all programs that were started and not dismissed, by this process or an earlier one. An error means
    /// that it is not known: nothing may be started then.
    fn commands(&self) -> impl Future<Output = Result<Vec<CommandKey>, MachineError>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Waits for the program with this key, with what is left of its timeout, and returns its result. The result stays
    /// available until the program is dismissed. An error means that it is not known: the program may run.
    fn resume(&self, _: &CommandKey) -> impl Future<Output = Result<Resumed, MachineError>> + Send {
        async { Ok(Resumed::Nothing) }
    }

    /// Forgets the program with this key. If it still runs, it is asked to end, and killed if it does not. An error
    /// means that it may still run. A missing program is not an error.
    fn dismiss(&self, _: &CommandKey) -> impl Future<Output = Result<(), MachineError>> + Send {
        async { Ok(()) }
    }

    /// The status of the answer to a GET request.
    fn get(&self, url: &HttpUrl, timeout: Duration)
    -> impl Future<Output = Result<u16, MachineError>> + Send;

    /// What the machine says of itself. What it does not know is missing.
    fn facts(&self) -> impl Future<Output = Facts> + Send;
}

/// Owner and permissions of a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Permission bits, including those beyond `0777` that an existing file may have.
    pub mode: u32,
    /// User ID of the owner.
    pub owner: u32,
    /// ID of the group.
    pub group: u32,
}

/// The state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The path does not exist.
    Nothing,
    /// A regular file.
    File {
        /// Whose it is.
        metadata: Metadata,
        /// How many bytes it has.
        size: u64,
    },
    /// A folder.
    Directory {
        /// Whose it is.
        metadata: Metadata,
    },
    /// Another type, such as "a symbolic link".
    Other(&'static str),
}

impl Found {
    /// A description for messages.
    pub const fn describe(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::File { .. } => "a file",
            Self::Directory { .. } => "a folder",
            Self::Other(what) => what,
        }
    }
}

/// A program to run.
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    /// Program and arguments.
    pub argv: &'a Argv,
    /// Environment variables, besides a default `PATH`.
    pub env: &'a [EnvVar],
    /// Timeout.
    pub timeout: Duration,
    /// Key by which the command is found after a restart of the agent. `None` for programs without effects, which end
    /// with the agent.
    pub key: Option<&'a CommandKey>,
}

/// The result of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// How it ended.
    pub exit: Exit,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was terminated by this signal.
    Signal(i32),
    /// It was terminated after its timeout.
    TimedOut,
}
