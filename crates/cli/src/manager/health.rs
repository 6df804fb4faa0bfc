//! Serves `/healthz` and `/readyz` for the kubelet, over plain HTTP, because they contain nothing confidential.

use anyhow::{Context, Result, ensure};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How long somebody who asks may take to do so.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than that ask only to keep others from asking.
const MOST_CONNECTIONS: usize = 64;

/// Listens on `address`. As in Go, `:9440` means all addresses of this machine.
pub(super) async fn listen(address: &str, what: &str, flag: &str) -> Result<TcpListener> {
    let why = || format!("cannot listen on {address} for {what} (see {flag})");
    let candidates = candidates(address).await.with_context(why)?;
    ensure!(!candidates.is_empty(), "{}: there is no such address", why());
    TcpListener::bind(&candidates[..]).await.with_context(why)
}

async fn candidates(address: &str) -> Result<Vec<SocketAddr>> {
    if let Some(port) = address.strip_prefix(':') {
        let port: u16 = port.parse().context("the port must be a number from 0 to 65535")?;
        // The first takes both sorts of addresses, where there is IPv6.
        return Ok(vec![(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()]);
    }
    Ok(tokio::net::lookup_host(address).await.context("say :PORT or ADDRESS:PORT")?.collect())
}

/// Serves until the future is dropped.
pub(super) async fn serve(listener: TcpListener, ready: watch::Receiver<bool>) {
    let handle = |stream| connection(stream, ready.clone());
    capstan_net::serve(listener, "health", MOST_CONNECTIONS, std::future::pending(), handle).await;
}

async fn connection(stream: TcpStream, ready: watch::Receiver<bool>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.method(), request.uri().path(), *ready.borrow());
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    // Who hangs up has hung up.
    _ = served.await;
}

fn answer(method: &Method, path: &str, is_ready: bool) -> Response<Full<Bytes>> {
    let (status, text) = match (method, path.trim_end_matches('/')) {
        (&Method::GET | &Method::HEAD, "/healthz") => (StatusCode::OK, "ok"),
        (&Method::GET | &Method::HEAD, "/readyz") if is_ready => (StatusCode::OK, "ok"),
        (&Method::GET | &Method::HEAD, "/readyz") => (StatusCode::SERVICE_UNAVAILABLE, "not ready"),
        (&Method::GET | &Method::HEAD, _) => (StatusCode::NOT_FOUND, "not found"),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "method not allowed"),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_more_than_healthy() {
        let code = |path, is_ready| answer(&Method::GET, path, is_ready).status().as_u16();
        assert_eq!((code("/healthz", false), code("/healthz", true)), (200, 200));
        assert_eq!((code("/readyz", false), code("/readyz/", true)), (503, 200));
        assert_eq!(code("/metrics", true), 404, "they are for those who may: see diagnostics");
        assert_eq!(answer(&Method::POST, "/healthz", true).status().as_u16(), 405);
    }

    #[tokio::test]
    async fn an_address_may_be_written_as_go_does() {
        let ports = |all: Vec<SocketAddr>| all.iter().map(SocketAddr::port).collect::<Vec<_>>();
        assert_eq!(candidates(":9440").await.map(ports).ok(), Some(vec![9440, 9440]));
        assert_eq!(candidates("127.0.0.1:9440").await.map(ports).ok(), Some(vec![9440]));
        assert!(candidates(":x").await.is_err() && candidates("9440").await.is_err());
        let listener = listen(":0", "tests", "--test").await.expect("a free port");
        assert_ne!(listener.local_addr().expect("bound").port(), 0);
    }
}
