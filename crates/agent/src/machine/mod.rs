//! The operating system, as the engine uses it.
//!
//! The trait is small, so that a simulated machine has to implement only thirteen functions. The functions for commands
//! that outlive the agent, those for some targets of probes, and the one that avoids reads, have defaults. The rules for an implementation are documented
//! at each function; the crash safety of the engine depends on them.

mod command;
mod error;
mod output;
mod surroundings;

pub use command::{CommandKey, Resumed};
pub use error::MachineError;
pub(crate) use error::{is_full, remedy};
pub use output::{Capture, Captured};
pub use surroundings::{HttpGet, Surroundings};

use capstan_plan::{Argv, Artifact, Digest, EnvVar, Facts, HttpUrl, HttpsTarget, MachinePath, TcpAddress};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::time::Duration;

use crate::image::ImageReference;

/// The operating system of a machine: files, units and processes.
pub trait Machine: Send + Sync {
    /// The state of a path. Does not follow symbolic links: one in a parent is an error, one at the path itself is
    /// [`Found::Other`]. If a parent folder is missing, the path does not exist.
    fn inspect(&self, path: &MachinePath) -> impl Future<Output = Result<Found, MachineError>> + Send;

    /// The content of a regular file, if it is not larger than `most`.
    fn read(
        &self,
        path: &MachinePath,
        most: u64,
    ) -> impl Future<Output = Result<Vec<u8>, MachineError>> + Send;

    /// Writes a regular file, or replaces one, atomically: a reader, also after a crash, finds the old file or the new
    /// one with its owner and mode. Durable when it returns.
    fn write(
        &self,
        path: &MachinePath,
        content: &[u8],
        metadata: Metadata,
    ) -> impl Future<Output = Result<(), MachineError>> + Send;

    /// Creates a folder, or sets owner and mode of an existing one. The parent folder must exist. Durable when it
    /// returns.
    fn make_directory(
        &self,
        path: &MachinePath,
        metadata: Metadata,
    ) -> impl Future<Output = Result<(), MachineError>> + Send;

    /// Removes a regular file and nothing else. Succeeds if it does not exist. Durable when it returns.
    fn remove_file(&self, path: &MachinePath) -> impl Future<Output = Result<(), MachineError>> + Send;

    /// Removes an empty folder and nothing else. Succeeds if it does not exist; if it is not empty, the error is
    /// [`MachineError::NotEmpty`]. Durable when it returns.
    fn remove_directory(&self, path: &MachinePath) -> impl Future<Output = Result<(), MachineError>> + Send;

    /// Installs an artifact at a path that does not exist or has an artifact of the same type. Downloads it first, if
    /// necessary. Atomic: a reader, also after a crash, finds the previous state or the whole artifact with its owners
    /// and modes. Durable when it returns. An archive with paths outside of its folder, or with anything but files,
    /// folders and links, is an error.
    fn install(
        &self,
        artifact: &Artifact,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), MachineError>> + Send;

    /// Whether an artifact at a path is as [`install`](Self::install) has installed it, compared by content. `None` if
    /// that is unknown, because the downloaded archive is not available. Writes and downloads nothing.
    fn is_installed(
        &self,
        artifact: &Artifact,
    ) -> impl Future<Output = Result<Option<bool>, MachineError>> + Send;

    /// A stamp that changes when the file at a path, or anything in the folder there, changes; computed without reading
    /// content. `None` if the machine has no such stamp; then the content is read for every check.
    fn stamp(&self, _: &MachinePath) -> impl Future<Output = Result<Option<Digest>, MachineError>> + Send {
        async { Ok(None) }
    }

    /// Removes a folder with its content, without following links. Succeeds if it does not exist. After a crash a part
    /// of it may be left. Durable when it returns.
    fn remove_tree(&self, path: &MachinePath) -> impl Future<Output = Result<(), MachineError>> + Send;

    /// Removes all downloaded artifacts except these.
    fn keep_fetched(
        &self,
        digests: &BTreeSet<Digest>,
    ) -> impl Future<Output = Result<(), MachineError>> + Send;

    /// Runs a program to its end. An error means that it was not started, except for [`MachineError::Lost`]; a later
    /// failure is in [`Ran`]. After its timeout a program is killed with all processes it has started. Output never
    /// blocks it.
    ///
    /// A program without a key is ended if the future is dropped. One with a key may outlive the future and the agent;
    /// then [`commands`](Self::commands) and [`resume`](Self::resume) find it. At most one program with a key runs at
    /// any time: before one is started, all others are [dismissed](Self::dismiss).
    fn run(&self, invocation: Invocation<'_>) -> impl Future<Output = Result<Ran, MachineError>> + Send;

    /// The same, in these surroundings. A machine without support for them uses its defaults.
    fn run_in(
        &self,
        invocation: Invocation<'_>,
        _: &Surroundings,
    ) -> impl Future<Output = Result<Ran, MachineError>> + Send {
        self.run(invocation)
    }

    /// The keys of all programs that this process or an earlier one has started and that were not dismissed. An error
    /// means that they are unknown: nothing may be started then.
    fn commands(&self) -> impl Future<Output = Result<Vec<CommandKey>, MachineError>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Waits for the program with this key, for the rest of its timeout, and returns its result. The result is
    /// available until the program is dismissed. An error means that the result is unknown: the program may run.
    fn resume(&self, _: &CommandKey) -> impl Future<Output = Result<Resumed, MachineError>> + Send {
        async { Ok(Resumed::Nothing) }
    }

    /// Removes the program with this key. If it runs, it is terminated, and killed after a while. An error means that
    /// it may still run. Succeeds if there is no such program.
    fn dismiss(&self, _: &CommandKey) -> impl Future<Output = Result<(), MachineError>> + Send {
        async { Ok(()) }
    }

    /// Ends the program with this key as [`dismiss`](Self::dismiss) does, and returns its result if there is one. The result is
    /// available until the program is dismissed. An error means that it may still run.
    fn cancel(&self, key: &CommandKey) -> impl Future<Output = Result<Resumed, MachineError>> + Send {
        async { self.dismiss(key).await.map(|()| Resumed::Nothing) }
    }

    /// The status code of a GET request.
    fn get(&self, url: &HttpUrl, timeout: Duration)
    -> impl Future<Output = Result<u16, MachineError>> + Send;

    /// The status code of a GET request over TLS.
    fn get_https(
        &self,
        _: &HttpsTarget,
        _: Duration,
    ) -> impl Future<Output = Result<u16, MachineError>> + Send {
        async { Err(MachineError::io("ask over TLS", io::ErrorKind::Unsupported)) }
    }

    /// Connects to a port, and sends nothing. An error means that it does not accept connections.
    fn connect(&self, _: &TcpAddress, _: Duration) -> impl Future<Output = Result<(), MachineError>> + Send {
        async { Err(MachineError::io("connect to a port", io::ErrorKind::Unsupported)) }
    }

    /// When what is at a path was last changed, by the wall clock; `None` if the path does not exist. Does not follow
    /// symbolic links.
    fn modified(
        &self,
        _: &MachinePath,
    ) -> impl Future<Output = Result<Option<Timestamp>, MachineError>> + Send {
        async { Err(MachineError::io("look at the age of a file", io::ErrorKind::Unsupported)) }
    }

    /// The status code of a GET request over HTTP or HTTPS. Redirects to the same host are followed.
    fn http_get(
        &self,
        request: &HttpGet,
        _: Duration,
    ) -> impl Future<Output = Result<u16, MachineError>> + Send {
        let error = MachineError::io(format!("ask {}", request.url), io::ErrorKind::Unsupported);
        async { Err(error) }
    }

    /// Unpacks a container image into an existing folder, from the first archive in the folder `images` that contains it.
    /// Everything in it gets this owner and group. `false`: no archive contains it.
    fn unpack_image(
        &self,
        image: &ImageReference,
        _: &MachinePath,
        _: &MachinePath,
        _: (u32, u32),
    ) -> impl Future<Output = Result<bool, MachineError>> + Send {
        let error = MachineError::io(format!("unpack {image}"), io::ErrorKind::Unsupported);
        async { Err(error) }
    }

    /// Unpacks layers of a container image into an existing folder, the lowest first. They are files in the folder `blobs`, named
    /// by their digests, which are verified. Everything in them gets this owner and group.
    fn unpack_layers(
        &self,
        _: &[Digest],
        blobs: &MachinePath,
        _: &MachinePath,
        _: (u32, u32),
    ) -> impl Future<Output = Result<(), MachineError>> + Send {
        let error = MachineError::io(format!("unpack {blobs}"), io::ErrorKind::Unsupported);
        async { Err(error) }
    }

    /// The path without symbolic links, for a caller that may follow them. Only links whose owner is root, or the user
    /// of this process, are followed, because the owner of a link chooses where it leads. Missing parts stay.
    fn real_path(
        &self,
        path: &MachinePath,
    ) -> impl Future<Output = Result<MachinePath, MachineError>> + Send {
        let path = path.clone();
        async { Ok(path) }
    }

    /// Facts about the machine. Unknown facts are missing.
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
        /// Its owner and permissions.
        metadata: Metadata,
        /// Its size in bytes.
        size: u64,
    },
    /// A folder.
    Directory {
        /// Its owner and permissions.
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
