//! Charges the CPU time of a request to its client, while the request is processed and while its response is sent. A request that
//! its client cancels has been charged, too.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use rustix::time::{ClockId, clock_gettime};

use crate::{limits::Pass, respond::Body, sender::Sender};

/// CPU time of this thread since its start.
fn thread_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Does something for the client of a pass.
fn charged<T>(pass: Option<&Pass>, work: impl FnOnce() -> T) -> T {
    let Some(pass) = pass else { return work() };
    let before = thread_time();
    let done = work();
    pass.charge(thread_time().saturating_sub(before));
    done
}

/// The work on a request.
pub(crate) struct Charged<'a, F> {
    work: Pin<Box<F>>,
    pass: Option<&'a Pass>,
}

impl<'a, F: Future> Charged<'a, F> {
    pub(crate) fn new(pass: Option<&'a Pass>, work: F) -> Self {
        Self { work: Box::pin(work), pass }
    }
}

impl<F: Future> Future for Charged<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let pass = self.pass;
        charged(pass, || self.work.as_mut().poll(context))
    }
}

/// A response. Holds what its request takes from the limits of its client until the whole response is sent.
pub(crate) struct ChargedBody {
    pub(crate) body: Body,
    pub(crate) sender: Sender,
}

impl http_body::Body for ChargedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Self { body, sender } = &mut *self;
        charged(sender.pass.as_ref(), || Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_counts() {
        let before = thread_time();
        std::thread::sleep(Duration::from_millis(200));
        let asleep = thread_time() - before;
        let mut sum = 0u64;
        while thread_time() - before < asleep + Duration::from_millis(20) {
            sum = sum.wrapping_mul(31).wrapping_add(7);
        }
        assert!(std::hint::black_box(sum) != 1 && asleep < Duration::from_millis(100), "{asleep:?}");
    }
}
