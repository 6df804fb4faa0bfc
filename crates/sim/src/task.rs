//! A task that its owner cancels when the owner is dropped.

use std::future::Future;
use tokio::task::JoinHandle;

/// Work that goes on beside its owner. Dropping it cancels it; [`Task::stop`] also waits until it is gone.
pub(crate) struct Task(Option<JoinHandle<()>>);

impl Task {
    pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Some(tokio::spawn(work)))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Cancels the work and waits until nothing of it runs any more.
    pub(crate) async fn stop(mut self) {
        if let Some(handle) = self.0.take() {
            handle.abort();
            // An error says that it was cancelled, which was the point, or that it panicked, which was told.
            let _ = handle.await;
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.abort();
        }
    }
}
