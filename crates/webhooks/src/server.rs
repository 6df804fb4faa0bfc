//! The HTTPS server of the webhooks: one POST for each review, within bounds.
//!
//! API servers do not authenticate themselves to webhooks unless they are configured to. An answer says nothing that the
//! caller did not send, apart from the names of Clusters that use a ClusterClass.

use capstan_net::{AddressRate, Connection, ConnectionLimits, Rate, Serving};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::server::ResolvesServerCert;
use serde_json::Value;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::Admitter;
use crate::paths::{Phase, find};
use crate::review::Question;

/// Its name in the log.
const NAME: &str = "webhooks";

/// Connections at once. There are few API servers, which keep their connections.
const CONNECTIONS: ConnectionLimits =
    ConnectionLimits { per_address: 512, total: 1024, unaccepted: Duration::from_secs(30) };

/// New connections of one address.
const EACH_ADDRESS: Rate = Rate { per_second: 1000.0, burst: 4000.0 };

/// The longest review: two objects of the size that etcd stores, and as much around them.
const MOST_BYTES: usize = 8 << 20;

/// Reviews at once: each holds its objects in memory.
const REVIEWS: usize = 64;

/// How long a caller may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long one review may take in all. No API server waits longer.
const LONGEST: Duration = Duration::from_secs(10);

/// Serves the webhooks.
#[derive(Clone)]
pub(crate) struct Server {
    tls: TlsAcceptor,
    admitter: Arc<Admitter>,
    places: Arc<Semaphore>,
}

impl Server {
    /// Serves with the current certificate of `serving`.
    pub(crate) fn new(admitter: Admitter, serving: &Arc<Serving>) -> Result<Self, rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(serving) as _;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let tls = TlsAcceptor::from(Arc::new(config));
        Ok(Self { tls, admitter: Arc::new(admitter), places: Arc::new(Semaphore::new(REVIEWS)) })
    }

    /// Serves until `stop` completes.
    pub(crate) async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()> + Send) {
        let rate = AddressRate::each(EACH_ADDRESS);
        let handle = |stream, _, place| connection(self.clone(), stream, place);
        capstan_net::serve_limited(listener, NAME, CONNECTIONS, &rate, stop, handle).await;
    }
}

async fn connection(server: Server, stream: TcpStream, place: Arc<Connection>) {
    let Some(stream) = capstan_net::handshake(&server.tls, stream, PATIENCE, NAME).await else { return };
    let service = service_fn(move |request| {
        let (server, place) = (server.clone(), Arc::clone(&place));
        async move {
            let answered = tokio::time::timeout(LONGEST, answer(&server, request)).await;
            let response = answered.unwrap_or_else(|_| plain(StatusCode::GATEWAY_TIMEOUT, "took too long"));
            if response.status().is_success() {
                place.request_accepted();
            }
            Ok::<_, Infallible>(response)
        }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "connection of a caller of webhooks");
    }
}

async fn answer(server: &Server, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let Some((phase, kind)) = find(request.uri().path()) else {
        return plain(StatusCode::NOT_FOUND, "there is no such webhook");
    };
    if request.method() != Method::POST {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "webhooks are called by POST");
    }
    let Ok(_place) = server.places.acquire().await else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "the server stops");
    };
    let body = match Limited::new(request.into_body(), MOST_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return plain(StatusCode::PAYLOAD_TOO_LARGE, "the request is too long");
        }
        Err(_) => return plain(StatusCode::BAD_REQUEST, "the request cannot be read"),
    };
    let Ok(review) = serde_json::from_slice::<Value>(&body) else {
        return plain(StatusCode::BAD_REQUEST, "the request is not JSON");
    };
    let question = match Question::read(kind, &review) {
        Ok(question) => question,
        Err(error) => return plain(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    drop((body, review));
    let answer = match phase {
        Phase::Default => question.mutated(server.admitter.default(&question.write()).await),
        Phase::Validate => question.validated(server.admitter.validate(&question.write()).await),
    };
    response(StatusCode::OK, "application/json", answer.to_string().into_bytes())
}

fn plain(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    response(status, "text/plain", text.as_bytes().to_vec())
}

fn response(status: StatusCode, content: &'static str, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content));
    response
}
