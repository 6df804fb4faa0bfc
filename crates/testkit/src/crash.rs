//! A process that crashes at its n-th write, for tests.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use kube::client::Body;
use tower::{Layer, Service};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The error of every request after the crash.
pub const DEAD: &str = "the process is dead";

/// A number of writes that no test reaches.
pub const NEVER: i64 = i64::MAX;

/// The number of writes until a process crashes. All clones share it.
#[derive(Clone)]
pub struct CrashPoint {
    writes: Arc<AtomicI64>,
    /// Whether the last write reaches the server, so that only its response is lost.
    reaches: bool,
}

/// The outcome of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It is executed, and the process gets the response.
    Answered,
    /// It is executed, and the process crashes before the response.
    ResponseLost,
    /// The process has crashed before it.
    Lost,
}

impl CrashPoint {
    /// Crashes at the n-th write.
    pub fn new(writes: i64, reaches: bool) -> Self {
        Self { writes: Arc::new(AtomicI64::new(writes)), reaches }
    }

    /// The number of writes until the crash.
    pub fn left(&self) -> i64 {
        self.writes.load(Ordering::SeqCst)
    }

    /// Whether the process has crashed.
    pub fn is_dead(&self) -> bool {
        self.left() < 1
    }

    /// Counts a write, and returns its outcome.
    pub fn write(&self) -> WriteOutcome {
        match self.writes.fetch_sub(1, Ordering::SeqCst) {
            2.. => WriteOutcome::Answered,
            1 if self.reaches => WriteOutcome::ResponseLost,
            _ => WriteOutcome::Lost,
        }
    }

    fn read(&self) -> WriteOutcome {
        if self.is_dead() { WriteOutcome::Lost } else { WriteOutcome::Answered }
    }
}

impl<S> Layer<S> for CrashPoint {
    type Service = CrashingService<S>;

    fn layer(&self, inner: S) -> CrashingService<S> {
        CrashingService { inner, crash_point: self.clone() }
    }
}

/// A client of an API server in a process that crashes.
#[derive(Clone)]
pub struct CrashingService<S> {
    inner: S,
    crash_point: CrashPoint,
}

impl<S> Service<http::Request<Body>> for CrashingService<S>
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
        let outcome = if is_read { self.crash_point.read() } else { self.crash_point.write() };
        let response = (outcome != WriteOutcome::Lost).then(|| self.inner.call(request));
        Box::pin(async move {
            match response {
                Some(response) if outcome == WriteOutcome::Answered => response.await.map_err(Into::into),
                Some(response) => {
                    _ = response.await;
                    Err(DEAD.into())
                }
                None => Err(DEAD.into()),
            }
        })
    }
}
