//! The folder of a command. Readable by root only, because the output of a command may contain secrets.
//!
//! | file | written by | what |
//! |---|---|---|
//! | `command` | the agent | key, timeout, beginning; written before anything is started |
//! | `lock` | | locked by the agent, then held by the supervisor as long as it lives |
//! | `supervisor` | the supervisor | its process, before it starts the command |
//! | `result` | the supervisor | how the command ended; durable |
//! | `stopped` | the agent | nothing may be started from now on |
//!
//! The supervisor writes `supervisor` before it checks for `stopped`, and the agent writes `stopped` before it checks
//! for `supervisor`. So either the supervisor starts nothing, or the agent knows of it. `command` is removed first and
//! `stopped` last, so that this also holds during a removal.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use capstan_plan::{Argv, EnvVar};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::is_locked;
use super::session::Supervisor;
use crate::machine::{Captured, CommandKey, Exit, Invocation, MachineError, Ran, Surroundings};
use crate::store::put;

/// The order for the supervisor. It is sent through a socket, because the environment variables may be secret.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    argv: Argv,
    env: Vec<EnvVar>,
    pub(super) timeout: Duration,
    pub(super) surroundings: Surroundings,
}

impl Order {
    pub(super) fn new(invocation: &Invocation<'_>, surroundings: &Surroundings) -> Self {
        let (argv, env) = (invocation.argv.clone(), invocation.env.to_vec());
        Self { argv, env, timeout: invocation.timeout, surroundings: surroundings.clone() }
    }

    pub(super) fn invocation(&self) -> Invocation<'_> {
        Invocation { argv: &self.argv, env: &self.env, timeout: self.timeout, key: None }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Begun {
    key: CommandKey,
    timeout: Duration,
    at: Timestamp,
}

/// A running command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningCommand {
    /// Its key.
    pub key: CommandKey,
    /// When it was started.
    pub since: Timestamp,
}

/// How a command ended.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Ending {
    /// It ended, or timed out.
    Ended(Ended),
    /// It could not be started.
    NotStarted(NotStarted),
    /// A shutdown terminated it together with its supervisor: its exit status says nothing about the command.
    Interrupted,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    exit: Exit,
    stdout: Printed,
    stderr: Printed,
}

/// The kept output, in base64, because it may contain any bytes.
#[derive(Debug, Serialize, Deserialize)]
struct Printed {
    head: String,
    tail: String,
    omitted: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NotStarted {
    what: String,
    code: Option<i32>,
    message: String,
}

impl From<&Ran> for Ended {
    fn from(ran: &Ran) -> Self {
        let printed = |captured: &Captured| Printed {
            head: STANDARD.encode(&captured.head),
            tail: STANDARD.encode(&captured.tail),
            omitted: captured.omitted,
        };
        Self { exit: ran.exit, stdout: printed(&ran.stdout), stderr: printed(&ran.stderr) }
    }
}

impl From<Ended> for Ran {
    fn from(ended: Ended) -> Self {
        let bytes = |text: &str| STANDARD.decode(text).unwrap_or_default();
        let captured = |printed: &Printed| Captured {
            head: bytes(&printed.head),
            tail: bytes(&printed.tail),
            omitted: printed.omitted,
        };
        Self { exit: ended.exit, stdout: captured(&ended.stdout), stderr: captured(&ended.stderr) }
    }
}

impl From<&MachineError> for NotStarted {
    fn from(error: &MachineError) -> Self {
        match error {
            MachineError::Io { what, source } => {
                Self { what: what.clone(), code: source.raw_os_error(), message: source.to_string() }
            }
            other => Self { what: "start it".to_owned(), code: None, message: other.to_string() },
        }
    }
}

impl From<NotStarted> for MachineError {
    fn from(error: NotStarted) -> Self {
        let source = error.code.map_or_else(|| io::Error::other(error.message), io::Error::from_raw_os_error);
        Self::io(error.what, source)
    }
}

/// The record of one command.
#[derive(Clone, Debug)]
pub(super) struct Record {
    folder: PathBuf,
}

const COMMAND: &str = "command";
const LOCK: &str = "lock";
const SUPERVISOR: &str = "supervisor";
const RESULT: &str = "result";
const STOPPED: &str = "stopped";

impl Record {
    pub(super) fn new(commands: &Path, key: &CommandKey) -> Self {
        Self { folder: commands.join(key.digest().to_string()) }
    }

    pub(super) fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// All records, complete or not.
    pub(super) fn all(commands: &Path) -> io::Result<Vec<Self>> {
        let entries = match fs::read_dir(commands) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        entries.map(|entry| Ok(Self { folder: entry?.path() })).collect()
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates the record durably, and takes its lock.
    pub(super) fn create(&self, key: &CommandKey, timeout: Duration) -> io::Result<File> {
        self.remove()?;
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        // Locked before it has its name: `explain` looks at locks, and would hold this one for a moment.
        let (unnamed, name) = (self.folder.join("lock.new"), self.folder.join(LOCK));
        let lock = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&unnamed)?;
        if is_locked(&lock)? {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        fs::rename(unnamed, name)?;
        let begun = Begun { key: key.clone(), timeout, at: Timestamp::now() };
        put(&self.folder, COMMAND, &serde_json::to_vec(&begun)?)?;
        if let Some(above) = self.folder.parent() {
            capstan_files::sync_folder(above)?;
        }
        Ok(lock)
    }

    /// The key of the command. `None` if the record is incomplete or being removed: then nothing runs.
    pub(super) fn key(&self) -> Option<CommandKey> {
        Some(self.begun().ok()??.key)
    }

    /// The rest of the timeout. `None` if the command is not recorded.
    pub(super) fn time_left(&self) -> io::Result<Option<Duration>> {
        let Some(begun) = self.begun()? else { return Ok(None) };
        let age = self.supervisor()?.and_then(|supervisor| supervisor.age()).unwrap_or_default();
        Ok(Some(begun.timeout.saturating_sub(age)))
    }

    fn begun(&self) -> io::Result<Option<Begun>> {
        self.read(COMMAND)
    }

    /// Whether a process is about to start the command, supervises it, or reads the output of a service that it has
    /// left behind.
    pub(super) fn is_held(&self) -> io::Result<bool> {
        match File::open(self.folder.join(LOCK)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            lock => is_locked(&lock?),
        }
    }

    /// The supervisor process, if it is recorded.
    pub(super) fn supervisor(&self) -> io::Result<Option<Supervisor>> {
        self.read(SUPERVISOR)
    }

    /// Records the supervisor. Returns whether it may start the command.
    pub(super) fn supervised_by(&self, supervisor: &Supervisor) -> io::Result<bool> {
        put(&self.folder, SUPERVISOR, &serde_json::to_vec(supervisor)?)?;
        Ok(!self.folder.join(STOPPED).exists() && self.folder.join(COMMAND).exists())
    }

    /// From now on, a supervisor that is not recorded starts nothing.
    pub(super) fn forbid(&self) -> io::Result<()> {
        match OpenOptions::new().create(true).append(true).mode(0o600).open(self.folder.join(STOPPED)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.map(drop),
        }
    }

    /// Its result, if there is one.
    pub(super) fn ending(&self) -> io::Result<Option<Ending>> {
        self.read(RESULT)
    }

    /// Writes the result. Durable when it returns.
    pub(super) fn ended(&self, ending: &Ending) -> io::Result<()> {
        put(&self.folder, RESULT, &serde_json::to_vec(ending)?)
    }

    /// The command, if it runs.
    pub(super) fn running(&self) -> io::Result<Option<RunningCommand>> {
        let is_running = self.is_held()? && self.ending()?.is_none();
        let begun = self.begun()?.filter(|_| is_running);
        Ok(begun.map(|begun| RunningCommand { key: begun.key, since: begun.at }))
    }

    /// Removes the record. May be interrupted at any point and repeated.
    pub(super) fn remove(&self) -> io::Result<()> {
        let is_there = |error: &io::Error| error.kind() != io::ErrorKind::NotFound;
        match fs::remove_file(self.folder.join(COMMAND)) {
            Err(error) if is_there(&error) => return Err(error),
            _ => {}
        }
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if is_there(&error) => return Err(error),
            Err(_) => return Ok(()),
            Ok(entries) => entries,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name() != STOPPED {
                fs::remove_file(entry.path())
                    .or_else(|error| if is_there(&error) { Err(error) } else { Ok(()) })?;
            }
        }
        fs::remove_dir_all(&self.folder)
    }

    fn read<T: for<'a> Deserialize<'a>>(&self, name: &str) -> io::Result<Option<T>> {
        match fs::read(self.folder.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => serde_json::from_slice(&read?).map(Some).map_err(|error| {
                let what = format!("{} is damaged: {error}", self.folder.join(name).display());
                io::Error::new(io::ErrorKind::InvalidData, what)
            }),
        }
    }
}
