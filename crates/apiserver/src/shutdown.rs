//! The signal that the server stops.

use tokio::sync::watch;

/// Waits until the server stops.
pub(crate) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error says that the server itself is gone.
    drop(stopping.wait_for(|stopping| *stopping).await);
}
