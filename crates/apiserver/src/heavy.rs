//! Requests that need much CPU time do not block the threads that serve all other clients.
//!
//! Parsing, merging and validating take time in proportion to the size of an object, and do not yield. A request with a large
//! object is therefore polled outside of the runtime's workers: another thread takes over their tasks meanwhile.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::runtime::{Handle, RuntimeFlavor};

/// A request about this many bytes is heavy. Smaller ones take less than a few milliseconds.
const HEAVY_BYTES: usize = 64 << 10;

/// Polls the work on a request about this many bytes outside of the runtime's workers, if that is much.
pub(crate) fn off_the_workers<F: Future>(bytes: usize, work: F) -> OffTheWorkers<F> {
    OffTheWorkers { work: Box::pin(work), is_heavy: bytes >= HEAVY_BYTES && is_multi_thread() }
}

/// Does work that takes long at once, outside of the runtime's workers.
pub(crate) fn at_once<T>(work: impl FnOnce() -> T) -> T {
    if is_multi_thread() { tokio::task::block_in_place(work) } else { work() }
}

/// Whether another thread can take over: in a runtime with one thread, as in some tests, there is none.
fn is_multi_thread() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// See [`off_the_workers`].
pub(crate) struct OffTheWorkers<F> {
    work: Pin<Box<F>>,
    is_heavy: bool,
}

impl<F: Future> Future for OffTheWorkers<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let is_heavy = self.is_heavy;
        let mut poll = || self.work.as_mut().poll(context);
        if is_heavy { tokio::task::block_in_place(poll) } else { poll() }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    /// Whether another task of a runtime with one worker runs while work on so many bytes keeps its thread busy.
    async fn lets_others_run(bytes: usize) -> bool {
        let (sender, receiver) = mpsc::channel();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let busy = tokio::spawn(off_the_workers(bytes, async move {
            started.send(()).unwrap();
            receiver.recv_timeout(Duration::from_secs(if bytes < HEAVY_BYTES { 1 } else { 60 })).is_ok()
        }));
        let other = tokio::spawn(async move {
            has_started.await.unwrap();
            sender.send(())
        });
        let is_released = busy.await.unwrap();
        drop(other.await);
        is_released
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn heavy_work_lets_other_tasks_run() {
        // Spawned, because the test itself has a thread of its own.
        assert!(tokio::spawn(lets_others_run(HEAVY_BYTES)).await.unwrap());
        assert!(!tokio::spawn(lets_others_run(HEAVY_BYTES - 1)).await.unwrap(), "what the test is about");
    }

    #[tokio::test]
    async fn one_thread_is_enough() {
        assert_eq!(off_the_workers(HEAVY_BYTES, async { 1 }).await, 1);
    }
}
