//! The supervisor of a command: starts it, enforces its timeout, reads its output, records its result.
//!
//! It ignores termination signals: at a shutdown systemd sends them to the whole scope, so the command has received its
//! own, and it may use the time that systemd allows. A command that fails after such a signal was interrupted; its exit
//! status is not recorded as its result.

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};

use super::record::{Ended, Ending, Order, Record};
use super::session::Supervisor;
use crate::machine::Exit;
use crate::real::process::{self, Readers};

/// Pause before a result that could not be written is written again.
const AGAIN: Duration = Duration::from_secs(1);

/// After a failed command, how long to wait for a signal to the supervisor. A shutdown signals one process after the
/// other.
const SHUTDOWN: Duration = Duration::from_millis(300);

/// Supervises the command whose record is in this folder. The order is read from standard input, which is a socket to
/// the agent; standard output is the lock of the record.
///
/// # Errors
/// If nothing was started.
pub async fn supervise(folder: &Path) -> io::Result<()> {
    // It fails for a process that leads a group, which no child of the agent does.
    rustix::process::setsid()?;
    let is_asked_to_end = ignore_signals()?;
    let agent = std::os::unix::net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    agent.set_nonblocking(true)?;
    let mut agent = UnixStream::from_std(agent)?;
    let mut bytes = Vec::new();
    agent.read_to_end(&mut bytes).await?;
    // An agent that was killed while it wrote has sent half of it.
    let order: Order = serde_json::from_slice(&bytes)?;
    drop(bytes);

    let record = Record::at(folder);
    if !record.supervised_by(&Supervisor::this()?)? || is_asked_to_end.load(Ordering::Relaxed) {
        return Err(io::ErrorKind::Interrupted.into());
    }
    let readers = Readers::default();
    let ran = process::run(order.invocation(), &order.surroundings, &readers).await;
    drop(order);
    if ran.as_ref().is_ok_and(|ran| ran.exit != Exit::Code(0)) {
        tokio::time::sleep(SHUTDOWN).await;
    }
    let ending = match &ran {
        Ok(ran) if ran.exit != Exit::Code(0) && is_asked_to_end.load(Ordering::Relaxed) => {
            Ending::Interrupted
        }
        Ok(ran) => Ending::Ended(Ended::from(ran)),
        Err(error) => Ending::NotStarted(error.into()),
    };
    while let Err(error) = record.ended(&ending) {
        if error.kind() == io::ErrorKind::NotFound {
            // The agent has dismissed the command, and wants no result.
            break;
        }
        // A full disk: the agent waits until there is room.
        tokio::time::sleep(AGAIN).await;
    }
    // The agent may be gone: then it finds the recorded result.
    let _ = agent.write_all(b".").await;
    drop(agent);
    // A service that the command left behind may go on printing: without a reader it would be ended by that.
    readers.read_to_the_end().await;
    Ok(())
}

fn ignore_signals() -> io::Result<Arc<AtomicBool>> {
    let is_asked = Arc::new(AtomicBool::new(false));
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let (mut signals, is_asked) = (signal(kind)?, Arc::clone(&is_asked));
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                is_asked.store(true, Ordering::Relaxed);
            }
        });
    }
    Ok(is_asked)
}
