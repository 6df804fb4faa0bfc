//! When to stop: Ctrl-C or a termination signal, told to everybody who runs.

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::signal::unix::{SignalKind, signal};

/// Done when it is time to stop. Everybody who runs holds a copy.
pub(crate) type Stop = Shared<BoxFuture<'static, ()>>;

/// Stops on Ctrl-C and on SIGTERM.
pub(crate) fn on_signal() -> Stop {
    async {
        let interrupted = async { _ = tokio::signal::ctrl_c().await };
        let terminated = async {
            match signal(SignalKind::terminate()) {
                Ok(mut signals) => _ = signals.recv().await,
                // Without that handler Ctrl-C still works.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = interrupted => {}
            () = terminated => {}
        }
    }
    .boxed()
    .shared()
}

/// Stops when something else is done.
pub(crate) fn when(done: impl Future<Output = ()> + Send + 'static) -> Stop {
    done.boxed().shared()
}
