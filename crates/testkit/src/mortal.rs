//! A process that dies at a certain write, whatever it writes to.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use kube::client::Body;
use tower::{Layer, Service};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What the others hear of a dead process, if it could speak.
pub const DEAD: &str = "the process is dead";

/// A number of writes that nobody reaches.
pub const NEVER: i64 = i64::MAX;

/// How many writes are left to a process. All clones are the same process.
#[derive(Clone)]
pub struct Pulse {
    writes: Arc<AtomicI64>,
    /// Whether the last write still reaches whom it is for, so that only the answer is lost.
    reaches: bool,
}

/// What becomes of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is done and answered.
    Lives,
    /// It is done, and nobody hears the answer.
    LastWord,
    /// Nobody is there to do it.
    Dead,
}

impl Pulse {
    /// Dies at the n-th write.
    pub fn new(writes: i64, reaches: bool) -> Self {
        Self { writes: Arc::new(AtomicI64::new(writes)), reaches }
    }

    /// Writes that are left.
    pub fn left(&self) -> i64 {
        self.writes.load(Ordering::SeqCst)
    }

    /// Whether no write of it is done any more.
    pub fn is_dead(&self) -> bool {
        self.left() < 1
    }

    /// Takes note of a write, and says what becomes of it.
    pub fn write(&self) -> Fate {
        match self.writes.fetch_sub(1, Ordering::SeqCst) {
            2.. => Fate::Lives,
            1 if self.reaches => Fate::LastWord,
            _ => Fate::Dead,
        }
    }

    fn read(&self) -> Fate {
        if self.is_dead() { Fate::Dead } else { Fate::Lives }
    }
}

impl<S> Layer<S> for Pulse {
    type Service = Mortal<S>;

    fn layer(&self, inner: S) -> Mortal<S> {
        Mortal { inner, pulse: self.clone() }
    }
}

/// The way of such a process to an API server.
#[derive(Clone)]
pub struct Mortal<S> {
    inner: S,
    pulse: Pulse,
}

impl<S> Service<http::Request<Body>> for Mortal<S>
where
    S: Service<http::Request<Body>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    S::Response: Send,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let is_read = request.method() == http::Method::GET;
        let fate = if is_read { self.pulse.read() } else { self.pulse.write() };
        let answer = (fate != Fate::Dead).then(|| self.inner.call(request));
        Box::pin(async move {
            match answer {
                Some(answer) if fate == Fate::Lives => answer.await.map_err(Into::into),
                Some(answer) => {
                    _ = answer.await;
                    Err(DEAD.into())
                }
                None => Err(DEAD.into()),
            }
        })
    }
}
