//! A timeout for requests to workload clusters other than watches, so that an API server that accepts connections and does
//! not respond does not block a reconcile.

use http::{Request, Response};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::{Layer, Service};

/// Timeout for requests other than watches.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The layer. See the module.
#[derive(Clone, Copy)]
pub(super) struct RequestTimeout(pub(super) Duration);

impl<S> Layer<S> for RequestTimeout {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited { inner, timeout: self.0 }
    }
}

#[derive(Clone)]
pub(super) struct Limited<S> {
    inner: S,
    timeout: Duration,
}

impl<S, B, A> Service<Request<B>> for Limited<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<A>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<A>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let timeout = (!is_watch(request.uri())).then_some(self.timeout);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let Some(timeout) = timeout else { return answer.await.map_err(Into::into) };
            match tokio::time::timeout(timeout, answer).await {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err(format!("the API server has not answered for {timeout:?}").into()),
            }
        })
    }
}

/// Whether the request is a watch or follows a log.
pub(super) fn is_watch(uri: &http::Uri) -> bool {
    let words = uri.query().unwrap_or_default().split('&');
    words.into_iter().any(|word| matches!(word, "watch=true" | "watch=1" | "follow=true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_watch_may_be_silent() {
        let mute =
            tower::service_fn(|_: Request<()>| std::future::pending::<Result<Response<()>, BoxError>>());
        let ask = |uri: &str| {
            let request = Request::get(uri).body(()).expect("a request");
            let timeout = RequestTimeout(Duration::from_millis(20));
            tokio::time::timeout(Duration::from_secs(1), timeout.layer(mute).call(request))
        };
        let refused = ask("/api/v1/nodes?limit=500").await.expect("an end");
        assert!(refused.is_err_and(|error| error.to_string().contains("has not answered for 20ms")));
        assert!(ask("/api/v1/nodes?watch=true&timeoutSeconds=290").await.is_err(), "it goes on waiting");
    }
}
