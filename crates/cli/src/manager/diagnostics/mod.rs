//! Serves `/metrics` and `/debug/flags/v` (log verbosity) over TLS to callers that the management plane authenticates and
//! authorizes. Upstream's managers serve the same paths under `--diagnostics-address`, and profiles.

mod certificate;

use anyhow::{Context as _, Result};
use capstan_controller::Metrics;
use capstan_controller::metrics::CONTENT_TYPE;
use capstan_controller::reviews::Reviews;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::Client;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::health;
use crate::log::LogLevel;

/// Its name in the log.
const NAME: &str = "diagnostics";
/// The default of `--diagnostics-address`, as upstream.
pub(super) const DEFAULT_ADDRESS: &str = ":8443";
/// The value that switches diagnostics off, as upstream.
const NOWHERE: &str = "0";

/// How long a caller may take for the handshake and for the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a request may take from its head to its answer.
const DEADLINE: Duration = Duration::from_secs(30);
const MOST_CONNECTIONS: usize = 64;
/// An exposition may be large: no more than these are made at the same time.
const MOST_SCRAPES: usize = 2;
/// A level is shorter.
const MOST_BYTES: usize = 1024;

const METRICS: &str = "/metrics";
/// Upstream's path for the same.
const VERBOSITY: &str = "/debug/flags/v";

/// The diagnostics server.
pub(super) struct Diagnostics {
    metrics: Metrics,
    level: LogLevel,
    /// Authenticates and authorizes callers. Without it every caller gets metrics, and the log verbosity is not served.
    reviews: Option<Reviews>,
    scrapes: Semaphore,
}

/// Binds the address. `None` if diagnostics are disabled, or if no address is given and the default port is in use.
pub(super) async fn listen(address: Option<&str>) -> Result<Option<TcpListener>> {
    let (flag, what) = ("--diagnostics-address", "diagnostics");
    match address {
        Some(NOWHERE) => Ok(None),
        Some(address) => health::listen(address, what, flag).await.map(Some),
        None => match health::listen(DEFAULT_ADDRESS, what, flag).await {
            Ok(listener) => Ok(Some(listener)),
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "metrics are not served");
                Ok(None)
            }
        },
    }
}

impl Diagnostics {
    /// A server with authentication and authorization by the management plane of `client`.
    pub(super) fn reviewed(metrics: Metrics, level: LogLevel, client: Client) -> Self {
        Self { reviews: Some(Reviews::new(client)), ..Self::open(metrics, level) }
    }

    /// A server without authentication and authorization.
    pub(super) fn open(metrics: Metrics, level: LogLevel) -> Self {
        Self { metrics, level, reviews: None, scrapes: Semaphore::new(MOST_SCRAPES) }
    }

    /// Its URL, for people.
    pub(super) fn url(&self, address: SocketAddr) -> String {
        let scheme = if self.reviews.is_some() { "https" } else { "http" };
        format!("{scheme}://{address}{METRICS}")
    }

    /// Serves until the future is dropped: over TLS if callers present tokens.
    pub(super) async fn serve(self, listener: TcpListener) -> Result<()> {
        let tls = match &self.reviews {
            Some(_) => Some(certificate::acceptor().context("cannot serve diagnostics over TLS")?),
            None => None,
        };
        let shared = Arc::new(self);
        let handle = |stream| greet(Arc::clone(&shared), stream, tls.clone());
        capstan_net::serve(listener, NAME, MOST_CONNECTIONS, std::future::pending(), handle).await;
        Ok(())
    }

    async fn answer<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let asked = match (head.uri.path(), &head.method) {
            (METRICS, &Method::GET | &Method::HEAD) => Asked::Metrics,
            (VERBOSITY, &Method::GET | &Method::HEAD) if self.reviews.is_some() => Asked::Verbosity,
            (VERBOSITY, &Method::PUT) if self.reviews.is_some() => Asked::Change,
            (METRICS, _) => return text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed"),
            (VERBOSITY, _) if self.reviews.is_some() => {
                return text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
            }
            _ => return text(StatusCode::NOT_FOUND, "not found"),
        };
        if let Some(reviews) = &self.reviews
            && let Some((status, message)) =
                reviews.refusal(&head.headers, &head.method, head.uri.path()).await
        {
            return refused(status, message);
        }
        match asked {
            Asked::Metrics => self.exposition().await,
            Asked::Verbosity => text(StatusCode::OK, self.level.current()),
            Asked::Change => match Limited::new(body, MOST_BYTES).collect().await {
                Ok(body) => match self.level.set(&String::from_utf8_lossy(&body.to_bytes())) {
                    Ok(()) => text(StatusCode::OK, format!("log level is {}", self.level.current())),
                    Err(error) => text(StatusCode::BAD_REQUEST, error),
                },
                Err(error) => text(StatusCode::BAD_REQUEST, format!("cannot read the level: {error}")),
            },
        }
    }

    async fn exposition(&self) -> Response<Full<Bytes>> {
        let Ok(_turn) = self.scrapes.acquire().await else {
            return text(StatusCode::SERVICE_UNAVAILABLE, "ends");
        };
        let metrics = self.metrics.clone();
        // Takes a while if there are many objects.
        match tokio::task::spawn_blocking(move || metrics.text()).await {
            Ok(exposition) => {
                let mut response = text(StatusCode::OK, exposition);
                response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
                response
            }
            Err(error) => {
                tracing::error!(%error, "cannot write metrics");
                text(StatusCode::INTERNAL_SERVER_ERROR, "cannot write metrics")
            }
        }
    }
}

enum Asked {
    Metrics,
    Verbosity,
    Change,
}

fn refused(status: StatusCode, message: String) -> Response<Full<Bytes>> {
    let mut response = text(status, message);
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

async fn greet(shared: Arc<Diagnostics>, stream: TcpStream, tls: Option<TlsAcceptor>) {
    let Some(tls) = tls else { return connection(shared, stream).await };
    if let Some(stream) = capstan_net::handshake(&tls, stream, PATIENCE, NAME).await {
        connection(shared, stream).await;
    }
}

async fn connection(shared: Arc<Diagnostics>, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let service = service_fn(move |request: Request<Incoming>| {
        let shared = Arc::clone(&shared);
        async move {
            let answer = tokio::time::timeout(DEADLINE, shared.answer(request)).await;
            Ok::<_, Infallible>(answer.unwrap_or_else(|_| text(StatusCode::GATEWAY_TIMEOUT, "took too long")))
        }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    // An error is a caller that closed the connection.
    _ = served.await;
}

#[cfg(test)]
mod tests;
