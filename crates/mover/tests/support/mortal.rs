//! A client whose process dies at a certain write: before it reaches the server, or after, so that the answer is lost.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use kube::client::Body;
use tower::{Layer, Service};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How many writes are left.
#[derive(Clone)]
pub(crate) struct Life {
    pub(crate) writes: Arc<AtomicI64>,
    /// Whether the last write still reaches the server.
    pub(crate) reaches: bool,
}

impl Life {
    pub(crate) fn of(writes: i64, reaches: bool) -> Self {
        Self { writes: Arc::new(AtomicI64::new(writes)), reaches }
    }
}

#[derive(Clone)]
pub(crate) struct Mortal<S> {
    inner: S,
    life: Life,
}

impl<S> Layer<S> for Life {
    type Service = Mortal<S>;

    fn layer(&self, inner: S) -> Mortal<S> {
        Mortal { inner, life: self.clone() }
    }
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
        let writes = request.method() != http::Method::GET;
        let taken = i64::from(writes);
        let left = self.life.writes.fetch_sub(taken, Ordering::SeqCst);
        if left > taken {
            let answer = self.inner.call(request);
            return Box::pin(async { answer.await.map_err(Into::into) });
        }
        let last = (left == 1 && writes && self.life.reaches).then(|| self.inner.call(request));
        Box::pin(async {
            if let Some(last) = last {
                _ = last.await;
            }
            Err("the process is dead".into())
        })
    }
}
