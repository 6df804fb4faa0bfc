//! Shutdown: Ctrl-C or a termination signal, broadcast to all tasks.

use anyhow::{Context, Result};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::signal::unix::{SignalKind, signal};

/// A future that completes at shutdown. Every task holds a clone.
pub(crate) type Stop = Shared<BoxFuture<'static, ()>>;

/// Stops on Ctrl-C and on SIGTERM. Signals are handled from this call on, even before a task waits, so that no signal
/// ends the process before it can clean up.
pub(crate) fn on_signal() -> Result<Stop> {
    let mut interrupts = signal(SignalKind::interrupt()).context("cannot wait for Ctrl-C")?;
    let mut terminations = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    Ok(when(async move {
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = terminations.recv() => {}
        }
    }))
}

/// Stops when another future completes.
pub(crate) fn when(done: impl Future<Output = ()> + Send + 'static) -> Stop {
    done.boxed().shared()
}
