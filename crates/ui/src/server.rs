//! The HTTP server: listens on one loopback address, sets security headers on every response, and requires a session
//! for everything except the login.

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

use crate::access::{Access, LoginLink, is_own_host, is_own_origin};
use crate::pages;
use crate::render::Renderer;
use crate::source::Source;

/// The longest body that is read: manifests for a preview.
const LONGEST_BODY: usize = 2 << 20;

/// Nothing but what this server itself sends, and no inline script or style.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// How the web view is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether it may change objects.
    pub allow_actions: bool,
}

/// What requests share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) access: Arc<Access>,
    pub(crate) renderer: Arc<Renderer>,
    pub(crate) address: SocketAddr,
    pub(crate) options: Options,
}

/// A web view that listens on its address.
pub struct Server {
    listener: TcpListener,
    shared: Shared,
}

impl Server {
    /// Listens on a loopback address.
    ///
    /// # Errors
    /// If the address is not a loopback address, or is in use.
    pub async fn bind(
        address: SocketAddr,
        source: Arc<dyn Source>,
        options: Options,
    ) -> std::io::Result<Self> {
        if !address.ip().is_loopback() {
            let why = format!(
                "the web view listens on a loopback address only, not on {}: to reach it from another machine, forward \
                 the port with `ssh -L`",
                address.ip()
            );
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
        }
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let renderer = Renderer::new().map_err(std::io::Error::other)?;
        let shared =
            Shared { source, access: Arc::default(), renderer: Arc::new(renderer), address, options };
        Ok(Self { listener, shared })
    }

    /// Creates a link that logs in once. It replaces the previous link.
    pub fn login_link(&self) -> LoginLink {
        self.shared.access.link(self.shared.address)
    }

    /// Serves until the future `stop` completes.
    ///
    /// # Errors
    /// If the listener fails.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        // Not a graceful shutdown: that would wait for the event streams of open pages.
        tokio::select! {
            served = axum::serve(self.listener, router(self.shared)).into_future() => served,
            () = stop => Ok(()),
        }
    }
}

/// All pages.
pub(crate) fn router(shared: Shared) -> Router {
    Router::new()
        .route("/", get(pages::fleet))
        .route("/clusters/{namespace}/{name}", get(pages::cluster))
        .route("/machines/{namespace}/{name}", get(pages::machine))
        .route("/hosts", get(pages::hosts))
        .route("/hosts/{namespace}/{name}", get(pages::host))
        .route("/plan", get(pages::preview_form).post(pages::preview))
        .route("/confirm", get(pages::confirm))
        .route("/actions", post(pages::act))
        .route("/live", get(pages::live))
        .route("/login", get(pages::login))
        .route("/style.css", get(pages::style))
        .route("/script.js", get(pages::script))
        .route("/icon.svg", get(pages::icon))
        .fallback(pages::nothing)
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(middleware::from_fn_with_state(shared.clone(), guard))
        .with_state(shared)
}

/// Rejects what does not come from a page of ours, or not from a browser that has logged in.
async fn guard(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    let response = match admit(&shared, &mut request) {
        Ok(()) => next.run(request).await,
        Err(rejected) => rejected.into_response(&shared),
    };
    with_headers(response)
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rejected {
    ForeignHost,
    ForeignOrigin,
    NotLoggedIn,
}

impl Rejected {
    fn into_response(self, shared: &Shared) -> Response {
        let (status, title, text) = match self {
            Self::ForeignHost => (
                StatusCode::MISDIRECTED_REQUEST,
                "Wrong address",
                "Open the web view at the address that `capstan ui` printed.",
            ),
            Self::ForeignOrigin => {
                (StatusCode::FORBIDDEN, "Wrong origin", "The request was sent by a page of another server.")
            }
            Self::NotLoggedIn => (
                StatusCode::UNAUTHORIZED,
                "Not logged in",
                "Open the login link that `capstan ui` or `capstan up --ui` printed. A link works once, within 15 minutes; run \
                 `capstan ui` for a new one.",
            ),
        };
        pages::message(shared, None, status, title, text)
    }
}

fn admit(shared: &Shared, request: &mut Request) -> Result<(), Rejected> {
    let headers = request.headers();
    if !header(headers, &HOST).is_some_and(|host| is_own_host(host, shared.address)) {
        return Err(Rejected::ForeignHost);
    }
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let origin = header(headers, &ORIGIN);
    let is_own = origin.map_or(is_read, |origin| is_own_origin(origin, shared.address));
    if !is_own {
        return Err(Rejected::ForeignOrigin);
    }
    let session =
        header(headers, &COOKIE).and_then(|cookie| shared.access.session(cookie, shared.address.port()));
    match session {
        Some(session) => {
            request.extensions_mut().insert(session);
            Ok(())
        }
        // The page that says so looks like the others, and needs what they need.
        None if matches!(request.uri().path(), "/login" | "/style.css" | "/icon.svg" | "/script.js") => {
            Ok(())
        }
        None => Err(Rejected::NotLoggedIn),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    // One that is there twice is not understood by everyone in the same way.
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then(|| value.to_str().ok()).flatten()
}

fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // Not "no-referrer": with that, browsers send forms with the origin "null".
        (REFERRER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
