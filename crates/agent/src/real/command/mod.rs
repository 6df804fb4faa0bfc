//! Commands that outlive the agent.
//!
//! A command that changes the machine must not end because the agent is killed, restarted or upgraded, and must not run
//! twice because the new agent process does not know of it. So each one has a supervisor: a separate process, in its
//! own session and, if systemd runs, in its own transient scope, which is not stopped with the agent's service. The
//! supervisor starts the command, enforces its timeout, reads its output, and records its result.
//!
//! The supervisor is the agent's own program with another subcommand, not a shell script: the machine needs no shell,
//! the output is bounded by the same [`Capture`](crate::machine::Capture), and the result is as durable as the journal.
//! The program is an argument ([`Linux::supervising`](super::Linux::supervising)), so that tests can be their own
//! supervisor.
//!
//! | file | what |
//! |---|---|
//! | [`record`] | the folder of a command: its key, its lock, its supervisor, its result |
//! | [`supervisor`] | the supervisor process |
//! | [`session`] | which processes belong to a command |
//! | [`scope`] | the arguments that start a supervisor in a systemd scope |
//!
//! The state after a process is killed, by the moment:
//!
//! | killed | what is found afterwards |
//! |---|---|
//! | the agent, before the record is whole | no key: nothing was started |
//! | the agent, before the supervisor has received its order | the lock is free, no result: nothing was started |
//! | the agent, later | the lock is held by the supervisor, then there is a result |
//! | the supervisor | the lock is free, no result: the rest of its session is ended; the result is unknown |
//! | both, by a reboot | another boot ID, no result: unknown. A shutdown is not a result of the command |
//!
//! The agent takes the lock and the supervisor inherits it, so a command that is about to start always holds it.
//! Secrets are passed to the supervisor through a socket, never through arguments or the disk.

mod record;
mod scope;
mod session;
mod supervisor;

pub use record::RunningCommand;
pub use supervisor::supervise;

use rustix::fs::{FlockOperation, flock};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::process::{LAST_MOMENTS, PATH};
use crate::machine::{Captured, CommandKey, Exit, Invocation, MachineError, Ran, Resumed, Surroundings};
use record::{Ending, Order, Record};

/// Interval of checks of a command that another process of the agent has started.
const LOOKING: Duration = Duration::from_millis(100);

/// A supervisor counts as stuck after the timeout and this time: it has to start, to end the command gracefully, and to
/// write to a slow disk.
const SLACK: Duration = Duration::from_secs(30);

/// Timeout for the supervisor to write the result of a killed command, before it is killed as well.
const LATE: Duration = Duration::from_secs(5);

/// Timeout for a command to end after it was killed.
const DYING: Duration = Duration::from_secs(15);

/// Starts commands, and finds those that were started.
#[derive(Clone, Debug)]
pub(super) struct Commands {
    folder: PathBuf,
    /// The program of the supervisor with its first arguments. The folder of the command is the last one.
    supervisor: Vec<OsString>,
}

/// How the wait for a command ended.
enum Waited {
    /// Its result is recorded.
    Ended(Ending),
    /// The supervisor has ended, and nothing was started.
    NeverStarted,
    /// The supervisor has ended, and its command was terminated.
    Lost,
    /// The supervisor does not respond.
    Stuck,
}

impl Commands {
    pub(super) const fn new(folder: PathBuf, supervisor: Vec<OsString>) -> Self {
        Self { folder, supervisor }
    }

    /// Starts a command and waits for its result. If the future is dropped, the command continues.
    pub(super) async fn run(
        &self,
        key: &CommandKey,
        invocation: &Invocation<'_>,
        surroundings: &Surroundings,
    ) -> Result<Ran, MachineError> {
        for record in self.records()? {
            self.remove(&record, &record.key().map_or("a command".to_owned(), |key| key.to_string())).await?;
        }
        let order = Order::new(invocation, surroundings);
        // A scope keeps the command when the agent's service is stopped. Without one it still has its own session.
        if scope::is_available() {
            match self.attempt(key, &order, true).await? {
                Waited::NeverStarted => {}
                waited => return self.result(key, waited).await,
            }
        }
        let waited = self.attempt(key, &order, false).await?;
        self.result(key, waited).await
    }

    async fn attempt(&self, key: &CommandKey, order: &Order, scoped: bool) -> Result<Waited, MachineError> {
        let record = self.record(key);
        let cannot = |error| MachineError::io(format!("start the {key}"), error);
        let (made, written, timeout) = (record.clone(), key.clone(), order.timeout);
        let made = tokio::task::spawn_blocking(move || made.create(&written, timeout)).await;
        let lock = made.map_err(io::Error::other).and_then(|made| made).map_err(cannot)?;
        let (mut child, socket) = match self.spawn(key, &record, lock, scoped) {
            // There is a systemd without `systemd-run`.
            Err(_) if scoped => return Ok(Waited::NeverStarted),
            spawned => spawned.map_err(cannot)?,
        };
        let socket = send(socket, order).await;
        let waited = self.wait(&record, socket, order.timeout + LAST_MOMENTS + SLACK).await?;
        if matches!(waited, Waited::Stuck) {
            // One that hangs before it is a supervisor is in no session of its own.
            let _ = child.start_kill();
        }
        Ok(waited)
    }

    fn spawn(
        &self,
        key: &CommandKey,
        record: &Record,
        lock: std::fs::File,
        scoped: bool,
    ) -> io::Result<(Child, UnixStream)> {
        let mut words = if scoped { scope::words(key) } else { Vec::new() };
        words.extend(self.supervisor.iter().cloned());
        words.push(record.folder().into());
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let program = words.first().ok_or(io::ErrorKind::InvalidInput)?;
        let child = Command::new(program)
            .args(&words[1..])
            .env_clear()
            .env("PATH", PATH)
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // Held open for as long as the supervisor lives: that is what the lock says.
            .stdout(Stdio::from(lock))
            .stderr(Stdio::null())
            .spawn()?;
        Ok((child, UnixStream::from_std(ours)?))
    }

    /// Waits for the result of a command. The socket signals when to check.
    async fn wait(
        &self,
        record: &Record,
        mut socket: Option<UnixStream>,
        most: Duration,
    ) -> Result<Waited, MachineError> {
        let deadline = Instant::now() + most;
        let cannot = |error| MachineError::io(format!("look at {}", record.folder().display()), error);
        loop {
            let is_held = record.is_held().map_err(cannot)?;
            // Read after the lock: a supervisor that has let go of it has written its result.
            if let Some(ending) = record.ending().map_err(cannot)? {
                return Ok(Waited::Ended(ending));
            }
            if !is_held {
                if record.supervisor().map_err(cannot)?.is_none() {
                    return Ok(Waited::NeverStarted);
                }
                self.end(record, "the command").await?;
                return Ok(Waited::Lost);
            }
            if Instant::now() >= deadline {
                self.end(record, "the command").await?;
                return Ok(Waited::Stuck);
            }
            let look_again = sleep(LOOKING);
            match &mut socket {
                None => look_again.await,
                Some(stream) => {
                    tokio::select! {
                        _ = stream.read_u8() => socket = None,
                        () = tokio::time::sleep_until(deadline) => {}
                    }
                }
            }
        }
    }

    async fn result(&self, key: &CommandKey, waited: Waited) -> Result<Ran, MachineError> {
        match waited {
            Waited::Ended(Ending::Ended(ended)) => Ok(ended.into()),
            Waited::Ended(Ending::NotStarted(error)) => Err(error.into()),
            Waited::Stuck => Ok(timed_out()),
            Waited::NeverStarted => Err(MachineError::io(
                format!("start the {key}"),
                io::Error::other("its supervisor ended before it started anything"),
            )),
            Waited::Lost | Waited::Ended(Ending::Interrupted) => {
                self.dismiss(key).await?;
                Err(MachineError::Lost)
            }
        }
    }

    pub(super) async fn resume(&self, key: &CommandKey) -> Result<Resumed, MachineError> {
        let record = self.record(key);
        let cannot = |error| MachineError::io(format!("find the {key}"), error);
        let Some(left) = record.time_left().map_err(cannot)? else { return Ok(Resumed::Nothing) };
        let waited = self.wait(&record, None, left + LAST_MOMENTS + SLACK).await?;
        Ok(match waited {
            Waited::NeverStarted => {
                self.dismiss(key).await?;
                Resumed::Nothing
            }
            waited => match self.result(key, waited).await {
                Ok(ran) => Resumed::Ended(ran),
                Err(MachineError::Lost) => Resumed::Nothing,
                Err(error) => Resumed::NotStarted(error),
            },
        })
    }

    pub(super) fn keys(&self) -> Result<Vec<CommandKey>, MachineError> {
        Ok(self.records()?.iter().filter_map(Record::key).collect())
    }

    pub(super) async fn dismiss(&self, key: &CommandKey) -> Result<(), MachineError> {
        self.remove(&self.record(key), &key.to_string()).await
    }

    /// Ends a command, and returns its result if it was started.
    pub(super) async fn cancel(&self, key: &CommandKey) -> Result<Resumed, MachineError> {
        let record = self.record(key);
        self.end(&record, &key.to_string()).await?;
        let ending = record.ending().map_err(|error| MachineError::io(format!("find the {key}"), error))?;
        Ok(match ending {
            Some(Ending::Ended(ended)) => Resumed::Ended(ended.into()),
            Some(Ending::NotStarted(error)) => Resumed::NotStarted(error.into()),
            Some(Ending::Interrupted) | None => Resumed::Nothing,
        })
    }

    async fn remove(&self, record: &Record, what: &str) -> Result<(), MachineError> {
        self.end(record, what).await?;
        record.remove().map_err(|error| MachineError::io(format!("forget the {what}"), error))
    }

    /// Ends the processes of a command: SIGTERM, and SIGKILL after a moment. A command with a recorded result has
    /// ended; processes that it has left behind, such as a service, continue.
    async fn end(&self, record: &Record, what: &str) -> Result<(), MachineError> {
        let cannot = |error| MachineError::io(format!("end the {what}"), error);
        record.forbid().map_err(cannot)?;
        let begin = Instant::now();
        let mut asked = Vec::new();
        loop {
            let is_held = record.is_held().map_err(cannot)?;
            if record.ending().map_err(cannot)?.is_some() {
                return Ok(());
            }
            // One that has not come so far starts nothing any more.
            let Some(supervisor) = record.supervisor().map_err(cannot)? else { return Ok(()) };
            let members = supervisor.members().map_err(cannot)?;
            if !is_held && members.is_empty() {
                return Ok(());
            }
            let is_killed = begin.elapsed() > LAST_MOMENTS;
            for member in &members {
                if is_killed {
                    member.kill();
                } else if !asked.contains(&member.pid) {
                    member.ask_to_end();
                    asked.push(member.pid);
                }
            }
            if members.is_empty() && begin.elapsed() > LAST_MOMENTS + LATE {
                supervisor.kill();
            }
            if begin.elapsed() > LAST_MOMENTS + DYING {
                let pids: Vec<String> = members.iter().map(|member| member.pid.to_string()).collect();
                let text = format!(
                    "it was killed and still runs (processes {}); reboot the machine",
                    pids.join(", ")
                );
                return Err(cannot(io::Error::other(text)));
            }
            sleep(LOOKING / 2).await;
        }
    }

    fn record(&self, key: &CommandKey) -> Record {
        Record::new(&self.folder, key)
    }

    fn records(&self) -> Result<Vec<Record>, MachineError> {
        Record::all(&self.folder)
            .map_err(|error| MachineError::io(format!("look at {}", self.folder.display()), error))
    }
}

/// Sends the order. If the supervisor does not receive it, the supervisor has ended, and waiting for it finds that out.
async fn send(mut socket: UnixStream, order: &Order) -> Option<UnixStream> {
    let bytes = serde_json::to_vec(order).ok()?;
    socket.write_all(&bytes).await.ok()?;
    socket.shutdown().await.ok()?;
    Some(socket)
}

fn timed_out() -> Ran {
    Ran { exit: Exit::TimedOut, stdout: Captured::default(), stderr: Captured::default() }
}

/// The running commands in this folder, for `explain`.
///
/// # Errors
/// If the folder cannot be read.
pub fn running_commands(folder: &Path) -> io::Result<Vec<RunningCommand>> {
    let mut running = Vec::new();
    for record in Record::all(folder)? {
        running.extend(record.running()?);
    }
    Ok(running)
}

/// Whether another process holds this lock.
fn is_locked(lock: &std::fs::File) -> io::Result<bool> {
    match flock(lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(false),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
