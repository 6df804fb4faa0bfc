//! Programs on Linux: each in its own process group, so that it can be ended with all processes it has started. They
//! end with this process; [`command`](super::command) has a supervisor in between that outlives the agent.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::machine::{Capture, Captured, Exit, Invocation, MachineError, Ran, Surroundings};

pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Time for a program to end after SIGTERM.
pub(super) const LAST_MOMENTS: Duration = Duration::from_secs(5);

/// Time for the rest of the output to arrive after a program has ended. A service that it has left behind may keep its
/// output open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Reads the output of programs. A service that a program has left behind continues to print after its output is no
/// longer used; it is read and dropped, or the service would block or be killed by SIGPIPE.
#[derive(Debug, Default)]
pub(super) struct Readers(Mutex<JoinSet<()>>);

impl Readers {
    /// Reads to the end. The output so far, and whether the end was reached, are available at any time.
    fn read(&self, stream: Option<impl AsyncRead + Send + Unpin + 'static>, capture: Capture) -> Reading {
        let capture = Arc::new(Mutex::new(capture));
        let (ended, has_ended) = watch::channel(false);
        let taken = Arc::clone(&capture);
        let mut readers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while readers.try_join_next().is_some() {}
        readers.spawn(async move {
            let mut stream = stream;
            let mut buffer = [0; 8192];
            while let Some(stream) = &mut stream
                && let Ok(length @ 1..) = stream.read(&mut buffer).await
            {
                taken.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..length]);
            }
            ended.send_replace(true);
        });
        Reading { capture, has_ended }
    }

    /// Reads until all programs have closed their output.
    pub(super) async fn read_to_the_end(self) {
        let mut readers = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        while readers.join_next().await.is_some() {}
    }
}

struct Reading {
    capture: Arc<Mutex<Capture>>,
    has_ended: watch::Receiver<bool>,
}

impl Reading {
    async fn finish(mut self) -> Captured {
        // Neither a timeout nor a reader that was ended is an error: what was read was read.
        let _ = timeout(LAST_WORDS, self.has_ended.wait_for(|ended| *ended)).await;
        self.capture.lock().unwrap_or_else(PoisonError::into_inner).captured()
    }
}

/// Ends a program and all processes it has started, unless it has ended.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // It may be gone by now, which is what we want.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

pub(super) async fn run(
    invocation: Invocation<'_>,
    surroundings: &Surroundings,
    readers: &Readers,
) -> Result<Ran, MachineError> {
    let program = invocation.argv.program();
    let cannot_start = |error| MachineError::io(format!("start {program}"), error);
    let mut command = Command::new(program);
    command
        .args(invocation.argv.arguments())
        .env_clear()
        .env("PATH", PATH)
        .envs(invocation.env.iter().map(|variable| (&variable.name, variable.value.expose())))
        .current_dir(surroundings.folder.as_deref().unwrap_or(Path::new("/")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let merged = if surroundings.is_merged { Some(merge(&mut command).map_err(cannot_start)?) } else { None };
    let mut child = command.spawn().map_err(cannot_start)?;
    // It holds the writing end of a merged output, which would never end.
    drop(command);
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut group = Group(pid);
    let capture = || surroundings.output.map_or_else(Capture::default, Capture::keeping);
    let stdout = match merged {
        Some(merged) => readers.read(Some(merged), capture()),
        None => readers.read(child.stdout.take(), capture()),
    };
    let stderr = readers.read(child.stderr.take(), capture());
    let exit = match timeout(invocation.timeout, child.wait()).await {
        Ok(status) => {
            // What it left behind, such as a service, is meant to stay.
            group.0 = None;
            status.map_or(Exit::Signal(0), exit)
        }
        Err(_) => {
            end(&mut child, &mut group).await;
            Exit::TimedOut
        }
    };
    let (stdout, stderr) = tokio::join!(stdout.finish(), stderr.finish());
    Ok(Ran { exit, stdout, stderr })
}

/// One pipe for both outputs, so that what is read is in the order of the writes.
fn merge(command: &mut Command) -> io::Result<pipe::Receiver> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    pipe::Receiver::from_owned_fd(reader.into())
}

async fn end(child: &mut Child, group: &mut Group) {
    group.signal(Signal::TERM);
    let _ = timeout(LAST_MOMENTS, child.wait()).await;
    group.signal(Signal::KILL);
    let _ = child.wait().await;
    // From here on its number may be somebody else's.
    group.0 = None;
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}
