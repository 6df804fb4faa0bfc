//! Serves `/healthz`, `/livez` and `/readyz` for the kubelet in the format of kube-apiserver, over plain HTTP, because they
//! contain nothing confidential.

use anyhow::{Context, Result, ensure};
use capstan_text::health::{self, Check, Endpoint, Parameters};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

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
pub(super) async fn serve(listener: TcpListener, checks: Arc<[Check]>) {
    let handle = |stream| connection(stream, Arc::clone(&checks));
    capstan_net::serve(listener, "health", MOST_CONNECTIONS, std::future::pending(), handle).await;
}

async fn connection(stream: TcpStream, checks: Arc<[Check]>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.method(), request.uri(), &checks);
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    // A client that closes the connection needs no answer.
    _ = served.await;
}

fn answer(method: &Method, uri: &Uri, checks: &[Check]) -> Response<Full<Bytes>> {
    let (status, text) = match *method {
        Method::GET | Method::HEAD => match respond(uri, checks) {
            Some(health) if health.is_healthy => (StatusCode::OK, health.text),
            Some(health) => (StatusCode::INTERNAL_SERVER_ERROR, health.text),
            None => (StatusCode::NOT_FOUND, "not found".to_owned()),
        },
        _ => (StatusCode::METHOD_NOT_ALLOWED, "method not allowed".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}

fn respond(uri: &Uri, checks: &[Check]) -> Option<health::Response> {
    let segments: Vec<&str> = uri.path().split('/').filter(|segment| !segment.is_empty()).collect();
    // Names of checks need no escapes.
    let query =
        uri.query().unwrap_or_default().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    match segments.as_slice() {
        [endpoint] => Some(health::respond(Endpoint::of(endpoint)?, checks, &Parameters::of(query))),
        [endpoint, name] => health::respond_one(Endpoint::of(endpoint)?, checks, name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_text::health::Health;

    #[test]
    fn ready_is_more_than_alive() {
        let health = |result: Health| [Check::ping(), Check::new("controllers", move || result.clone())];
        let starting = health(Health::NotReady("starting".to_owned()));
        let ended = health(Health::NeedsRestart("ended".to_owned()));
        let code = |path: &'static str, checks: &[Check]| {
            answer(&Method::GET, &Uri::from_static(path), checks).status().as_u16()
        };
        for (path, expected) in [
            ("/healthz", [200, 200, 500]),
            ("/livez", [200, 200, 500]),
            ("/readyz", [200, 500, 500]),
            ("/readyz/", [200, 500, 500]),
            ("/readyz?verbose", [200, 500, 500]),
            ("/readyz?exclude=controllers", [200, 200, 200]),
            ("/readyz/controllers", [200, 500, 500]),
            ("/readyz/other", [404, 404, 404]),
        ] {
            let codes = [&health(Health::Ok), &starting, &ended].map(|checks| code(path, checks));
            assert_eq!(codes, expected, "{path}");
        }
        assert_eq!(code("/metrics", &starting), 404, "they are for those who may: see diagnostics");
        assert_eq!(answer(&Method::POST, &Uri::from_static("/healthz"), &ended).status().as_u16(), 405);
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
