//! The HTTPS server: one POST for each hook, within bounds.
//!
//! Discovery is served to every caller, and says nothing about any cluster. For upstream's core, an extension that it could
//! never discover does not exist, and it replaces machines; a call that fails makes it wait.

use capstan_api::runtime::hooks::{
    Body, CanUpdateMachine, CanUpdateMachineSet, CommonResponse, Discovery, DiscoveryResponse, Hook,
    MOST_BYTES, Message, UpdateMachine, path,
};
use capstan_controller::reviews::Reviews;
use capstan_net::{AddressRate, Connection, ConnectionLimits, Rate};
use capstan_pki::RootsError;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::server::{ResolvesServerCert, WebPkiClientVerifier};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::extension::{Extension, handlers, names};

pub use capstan_net::Serving;

/// Its name in the log.
const NAME: &str = "hooks";

/// Connections at once. There is one core, with as many calls at once as its controllers have workers.
const CONNECTIONS: ConnectionLimits =
    ConnectionLimits { per_address: 512, total: 1024, unaccepted: Duration::from_secs(30) };

/// New connections: core opens one for each call.
const EACH_ADDRESS: Rate = Rate { per_second: 1000.0, burst: 4000.0 };

/// The longest request for discovery, which has no content. Every caller may send one.
const DISCOVERY_BYTES: usize = 64 << 10;

/// How long a caller may take to say who it is and what it wants.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long one request may take in all. No caller waits longer.
const LONGEST: Duration = Duration::from_secs(30);

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// rustls returns an error.
    #[error("cannot speak TLS")]
    Library(#[from] rustls::Error),
    /// The CA bundle for callers cannot be used.
    #[error("cannot use the authority of callers")]
    Callers(#[from] rustls::server::VerifierBuilderError),
    /// The CA bundle is not valid PEM.
    #[error("the authority of callers cannot be read")]
    Pem(#[from] rustls::pki_types::pem::Error),
}

/// How callers authenticate themselves. With none of both, every caller is served.
#[derive(Clone, Default)]
pub struct Authentication {
    /// CA bundle for client certificates, in PEM.
    pub client_ca: Option<Vec<u8>>,
    /// Reviews the bearer tokens of callers without a client certificate.
    pub tokens: Option<Arc<Reviews>>,
}

impl Authentication {
    /// By a client certificate of this CA bundle, in PEM, and in no other way.
    pub fn certificates(client_ca: Vec<u8>) -> Self {
        Self { client_ca: Some(client_ca), tokens: None }
    }
}

/// A TLS configuration with the current serving certificate, for callers that authenticate themselves like this.
///
/// # Errors
/// If rustls returns an error, or the CA bundle cannot be used.
fn tls(serving: &Arc<Serving>, authentication: &Authentication) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = match &authentication.client_ca {
        None => builder.with_no_client_auth(),
        Some(client_ca) => {
            let roots = capstan_pki::roots(client_ca).map_err(|error| match error {
                RootsError::Pem(error) => TlsError::Pem(error),
                RootsError::Certificate(error) => error.into(),
            })?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.allow_unauthenticated().build()?)
        }
    };
    let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(serving) as _;
    let mut config = builder.with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The hooks of an extension, and the callers that they are served to.
pub struct Server<E> {
    tls: TlsAcceptor,
    without_certificate: WithoutCertificate,
    extension: Arc<E>,
}

/// How the server treats callers without a client certificate.
#[derive(Clone)]
enum WithoutCertificate {
    Served,
    Refused,
    /// Served if their bearer token passes.
    Reviewed(Arc<Reviews>),
}

impl<E> Clone for Server<E> {
    fn clone(&self) -> Self {
        let (tls, without_certificate) = (self.tls.clone(), self.without_certificate.clone());
        Self { tls, without_certificate, extension: Arc::clone(&self.extension) }
    }
}

impl<E: Extension> Server<E> {
    /// Serves `extension` with the current certificate of `serving`.
    ///
    /// # Errors
    /// If the CA bundle for callers cannot be used.
    pub fn new(
        extension: E,
        serving: &Arc<Serving>,
        authentication: Authentication,
    ) -> Result<Self, TlsError> {
        let tls = TlsAcceptor::from(Arc::new(tls(serving, &authentication)?));
        let without_certificate = match authentication {
            Authentication { tokens: Some(reviews), .. } => WithoutCertificate::Reviewed(reviews),
            Authentication { client_ca: Some(_), .. } => WithoutCertificate::Refused,
            Authentication { client_ca: None, tokens: None } => WithoutCertificate::Served,
        };
        Ok(Self { tls, without_certificate, extension: Arc::new(extension) })
    }

    /// Serves the hooks until `stop` completes.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()> + Send) {
        let rate = AddressRate::each(EACH_ADDRESS);
        let handle = |stream, _, place| connection(self.clone(), stream, place);
        // Callers ask again: nothing is lost with an answer that does not come.
        capstan_net::serve_limited(listener, NAME, CONNECTIONS, &rate, stop, handle).await;
    }

    /// The response to a caller without a client certificate that must not be served.
    async fn refusal(&self, request: &Request<Incoming>) -> Option<Response<Full<Bytes>>> {
        let (status, message) = match &self.without_certificate {
            WithoutCertificate::Served => return None,
            WithoutCertificate::Refused => {
                (StatusCode::UNAUTHORIZED, "a client certificate is needed".to_owned())
            }
            WithoutCertificate::Reviewed(reviews) => {
                reviews.refusal(request.headers(), request.method(), request.uri().path()).await?
            }
        };
        Some(plain(status, &message))
    }
}

async fn connection<E: Extension>(server: Server<E>, stream: TcpStream, place: Arc<Connection>) {
    let Some(stream) = capstan_net::handshake(&server.tls, stream, PATIENCE, NAME).await else { return };
    let has_certificate = stream.get_ref().1.peer_certificates().is_some();
    let service = service_fn(move |request| {
        let (server, place) = (server.clone(), Arc::clone(&place));
        async move {
            let is_discovery = request.uri().path() == path(Discovery::NAME, None);
            let refusal = if has_certificate || is_discovery { None } else { server.refusal(&request).await };
            let response = match refusal {
                Some(refusal) => refusal,
                None => in_time(server.extension.as_ref(), request).await,
            };
            // Discovery proves nothing about the caller: its connection ends soon if nothing else comes.
            if response.status().is_success() && !is_discovery {
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
        tracing::debug!(%error, "connection of a caller of hooks");
    }
}

async fn in_time<E: Extension>(extension: &E, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let answered = tokio::time::timeout(LONGEST, answer(extension, request)).await;
    answered.unwrap_or_else(|_| plain(StatusCode::GATEWAY_TIMEOUT, "took too long"))
}

async fn answer<E: Extension>(extension: &E, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let asked = request.uri().path().to_owned();
    let is = |hook: &str, handler: Option<&str>| asked == path(hook, handler);
    let hook = [
        is(Discovery::NAME, None),
        is(CanUpdateMachine::NAME, Some(names::CAN_UPDATE_MACHINE)),
        is(CanUpdateMachineSet::NAME, Some(names::CAN_UPDATE_MACHINE_SET)),
        is(UpdateMachine::NAME, Some(names::UPDATE_MACHINE)),
    ];
    let Some(hook) = hook.iter().position(|is| *is) else {
        return plain(StatusCode::NOT_FOUND, "there is no such hook");
    };
    if request.method() != Method::POST {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "hooks are called by POST");
    }
    let most = if hook == 0 { DISCOVERY_BYTES } else { MOST_BYTES };
    let body = match Limited::new(request.into_body(), most).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return plain(StatusCode::PAYLOAD_TOO_LARGE, "the request is too long");
        }
        Err(_) => return plain(StatusCode::BAD_REQUEST, "the request cannot be read"),
    };
    match hook {
        0 => {
            let handlers = handlers();
            json(&Message(DiscoveryResponse { common: CommonResponse::success(), handlers }))
        }
        1 => reply::<CanUpdateMachine, _>(&body, |request| extension.can_update_machine(request)).await,
        2 => {
            reply::<CanUpdateMachineSet, _>(&body, |request| extension.can_update_machine_set(request)).await
        }
        _ => reply::<UpdateMachine, _>(&body, |request| extension.update_machine(request)).await,
    }
}

async fn reply<H: Hook, F>(body: &[u8], ask: impl FnOnce(H::Request) -> F) -> Response<Full<Bytes>>
where
    H::Request: Body + DeserializeOwned,
    H::Response: Body + Serialize,
    F: Future<Output = H::Response>,
{
    match serde_json::from_slice::<Message<H::Request>>(body) {
        Ok(Message(request)) => json(&Message(ask(request).await)),
        Err(error) => {
            // What is wrong may be repeated in the error, and may be a secret: only the sort of it is told.
            let message =
                format!("the request is not a valid {}: {:?} error", H::Request::KIND, error.classify());
            json(&CommonResponse::failure(message))
        }
    }
}

fn json(message: &impl Serialize) -> Response<Full<Bytes>> {
    match serde_json::to_vec(message) {
        Ok(body) => response(StatusCode::OK, "application/json", body),
        Err(error) => {
            tracing::warn!(%error, "cannot write an answer");
            plain(StatusCode::INTERNAL_SERVER_ERROR, "the answer cannot be written")
        }
    }
}

fn plain(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = response(status, "text/plain", text.as_bytes().to_vec());
    if status == StatusCode::UNAUTHORIZED {
        let scheme = header::HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    }
    response
}

fn response(status: StatusCode, content: &'static str, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content));
    response
}
