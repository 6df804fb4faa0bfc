//! Requests to an API server, counted between a client and the wire: name and labels of client-go.

use http::{Request, Response};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower::{Layer, Service};

type ByRequest = [(&'static str, String); 3];

/// What is counted when there was no answer.
const NO_ANSWER: &str = "<error>";

#[derive(Clone)]
pub(super) struct Requests(Family<ByRequest, Counter>);

impl Requests {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let requests = Self(Family::default());
        let help = "Requests to API servers, by status code, method and host";
        registry.register("rest_client_requests", help, requests.0.clone());
        requests
    }

    pub(super) fn layer(&self, host: &str) -> CountRequests {
        CountRequests { requests: self.clone(), host: host.to_owned() }
    }

    fn count(&self, code: &str, method: &http::Method, host: &str) {
        let labels =
            [("code", code.to_owned()), ("method", method.as_str().to_owned()), ("host", host.to_owned())];
        self.0.get_or_create_owned(&labels).inc();
    }
}

/// A layer that counts requests.
#[derive(Clone)]
pub struct CountRequests {
    requests: Requests,
    /// Above the layer that adds it to the request.
    host: String,
}

impl<S> Layer<S> for CountRequests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, counts: self.clone() }
    }
}

/// A client whose requests are counted.
#[derive(Clone)]
pub struct Counted<S> {
    inner: S,
    counts: CountRequests,
}

impl<S, B, R> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (counts, method) = (self.counts.clone(), request.method().clone());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().map(Response::status);
            let code = code.as_ref().map_or(NO_ANSWER, http::StatusCode::as_str);
            counts.requests.count(code, &method, &counts.host);
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;
    use tower::{ServiceExt as _, service_fn};

    #[tokio::test]
    async fn requests_are_counted_by_their_status_code() {
        let metrics = Metrics::default();
        let server = service_fn(async |request: Request<()>| match request.uri().path() {
            "/gone" => Err("connection refused"),
            "/none" => Ok(Response::builder().status(404).body(()).unwrap()),
            _ => Ok(Response::new(())),
        });
        for (method, path) in [("GET", "/"), ("GET", "/"), ("PATCH", "/none"), ("GET", "/gone")] {
            let client = metrics.count_requests("10.0.0.1:6443").layer(server);
            let request = Request::builder().method(method).uri(path).body(()).unwrap();
            _ = client.oneshot(request).await;
        }
        let text = metrics.text();
        for (code, method, count) in [("200", "GET", 2), ("404", "PATCH", 1), ("<error>", "GET", 1)] {
            let labels = format!("code=\"{code}\",method=\"{method}\",host=\"10.0.0.1:6443\"");
            let line = format!("rest_client_requests_total{{{labels}}} {count}");
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
