//! Shutdown: Ctrl-C or a termination signal, broadcast to all tasks.

use anyhow::{Context, Result};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::signal::unix::{SignalKind, signal};

/// Done when it is time to stop. Everybody who runs holds a copy.
pub(crate) type Stop = Shared<BoxFuture<'static, ()>>;

/// Stops on Ctrl-C and on SIGTERM: from this call on, not only once somebody waits, so that no signal ends the
/// process before it could clean up.
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

/// Stops when something else is done.
pub(crate) fn when(done: impl Future<Output = ()> + Send + 'static) -> Stop {
    done.boxed().shared()
}
