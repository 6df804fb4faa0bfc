//! A write timeout: a client that stops reading loses its connection, and with it the place and the memory that it holds.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes fail when the client has read nothing for too long.
pub struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    /// Limits the time that one write may wait.
    pub fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, waiting: None }
    }

    /// The result of a write, or an error if it has waited for too long.
    fn watch<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read what it is sent")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    const LIMIT: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_keeps_its_connection() {
        let (ours, mut theirs) = duplex(4);
        let mut ours = WriteTimeout::new(ours, LIMIT);
        let slowly = async {
            for _ in 0..4 {
                sleep(LIMIT * 3 / 4).await;
                theirs.read_exact(&mut [0; 4]).await.expect("four bytes");
            }
        };
        let (written, ()) = tokio::join!(ours.write_all(&[7; 16]), slowly);
        written.expect("each write was in time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_reading_loses_its_connection() {
        let (ours, _theirs) = duplex(4);
        let mut ours = WriteTimeout::new(ours, LIMIT);
        let begun = tokio::time::Instant::now();
        let error = ours.write_all(&[7; 5]).await.expect_err("nothing is read");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn reading_has_no_limit() {
        let (ours, mut theirs) = duplex(4);
        let mut ours = WriteTimeout::new(ours, LIMIT);
        let later = async {
            sleep(LIMIT * 10).await;
            theirs.write_all(b"x").await.expect("written");
        };
        let (read, ()) = tokio::join!(ours.read_u8(), later);
        assert_eq!(read.expect("a byte"), b'x');
    }
}
