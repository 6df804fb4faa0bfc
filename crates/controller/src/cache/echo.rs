//! Puts the writes of this process into its cache at once.
//!
//! A watch delivers an object some time after it was written. A controller that reads the cache in between would decide on
//! the state before its own write: it would open a second gate, write a second time, or run into a conflict with itself. So
//! the client takes the response to each write into the cache. The writers need not do anything for it.

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use tower::Service;
use tracing::{Instrument as _, Span};

/// Group, version and plural of a kind, as they are in paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wire {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
}

/// The cache of one kind.
pub(super) trait Absorb: Send + Sync {
    /// Number of lists that are complete. It is read before a write: if another list completes meanwhile, the response may be
    /// older than that list.
    fn lists(&self) -> u64;

    /// Takes the response to a write into the cache, unless the cache is ahead of it.
    fn absorb(&self, answer: &[u8], lists: u64);
}

/// The caches by kind.
#[derive(Clone, Default)]
pub(super) struct Echoes(Arc<Mutex<Memories>>);

type Memories = HashMap<Wire, Vec<Weak<dyn Absorb>>>;

impl Echoes {
    /// Sends the responses to writes of this kind to `memory`, as long as `memory` exists.
    pub(super) fn register(&self, wire: Wire, memory: &Arc<impl Absorb + 'static>) {
        let memory: Arc<dyn Absorb> = Arc::clone(memory) as _;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = all.entry(wire).or_default();
        kind.retain(|memory| memory.strong_count() > 0);
        kind.push(Arc::downgrade(&memory));
    }

    fn of(&self, wire: &Wire) -> Vec<(Arc<dyn Absorb>, u64)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let memories = all.get(wire).into_iter().flatten().filter_map(Weak::upgrade);
        memories.map(|memory| (Arc::clone(&memory), memory.lists())).collect()
    }

    /// A client whose writes go into the caches. Its field manager is `manager`, unless a request names another one.
    pub(super) fn around(&self, client: Client, manager: &'static str) -> Client {
        let namespace = client.default_namespace().to_owned();
        Client::new(Echo { inner: client, echoes: self.clone(), manager }, namespace)
    }
}

/// Passes requests on, and the responses to writes to the cache of the kind.
#[derive(Clone)]
struct Echo {
    inner: Client,
    echoes: Echoes,
    manager: &'static str,
}

impl Service<Request<Body>> for Echo {
    type Response = Response<Body>;
    type Error = tower::BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, tower::BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), tower::BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let memories = written(&request).map(|wire| self.echoes.of(&wire)).unwrap_or_default();
        let span = span(&request);
        let (client, request) = (self.inner.clone(), signed(request, self.manager));
        let send = async move {
            let answer = client.send(request).await?;
            Span::current().record("http.response.status_code", answer.status().as_u16());
            if memories.is_empty() || !answer.status().is_success() {
                return Ok(answer);
            }
            let (head, body) = answer.into_parts();
            let body = body.collect().await?.to_bytes();
            for (memory, lists) in memories {
                memory.absorb(&body, lists);
            }
            Ok(Response::from_parts(head, Body::from(body)))
        };
        Box::pin(send.instrument(span))
    }
}

/// The span of a request, with the names of OpenTelemetry. It has the path only: a query may be long.
fn span<B>(request: &Request<B>) -> Span {
    let (method, path) = (request.method(), request.uri().path());
    tracing::debug_span!(
        "request",
        otel.kind = "client",
        http.request.method = %method,
        url.path = path,
        http.response.status_code = tracing::field::Empty,
    )
}

/// Adds the field manager to the request, unless it has one. `managedFields` shows users which controller has set a field.
fn signed<B>(mut request: Request<B>, manager: &str) -> Request<B> {
    let query = request.uri().query().unwrap_or_default();
    let has_fields = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
    if !has_fields || query.split('&').any(|word| word.starts_with("fieldManager=")) {
        return request;
    }
    let joint = if query.is_empty() { "" } else { "&" };
    let signed = format!("{}?{query}{joint}fieldManager={manager}", request.uri().path());
    if let Ok(target) = signed.parse() {
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = Some(target);
        if let Ok(uri) = http::Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// The kind that a request writes to; `None` for reads and dry runs.
fn written<B>(request: &Request<B>) -> Option<Wire> {
    let is_write = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH | Method::DELETE);
    let is_tried =
        request.uri().query().unwrap_or_default().split('&').any(|word| word.starts_with("dryRun="));
    (is_write && !is_tried).then(|| wire_of(request.uri().path())).flatten()
}

/// The kind in a path.
fn wire_of(path: &str) -> Option<Wire> {
    let mut words = path.trim_start_matches('/').split('/');
    let (group, version) = match words.next()? {
        "api" => ("", words.next()?),
        "apis" => (words.next()?, words.next()?),
        _ => return None,
    };
    let rest: Vec<&str> = words.collect();
    let plural = match rest.as_slice() {
        // A Namespace itself has the same beginning as what is inside of one.
        ["namespaces", _, plural, ..] if !matches!(*plural, "status" | "finalize") => plural,
        [plural, ..] => plural,
        [] => return None,
    };
    Some(Wire { group: group.to_owned(), version: version.to_owned(), plural: (*plural).to_owned() })
}

/// The kind and the object of a response.
#[derive(Deserialize)]
pub(super) struct Heading {
    #[serde(default)]
    pub(super) kind: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_its_kind() {
        for (path, expected) in [
            ("/api/v1/namespaces/n/secrets/s", Some(("", "v1", "secrets"))),
            ("/api/v1/namespaces/n/secrets", Some(("", "v1", "secrets"))),
            ("/api/v1/namespaces/n", Some(("", "v1", "namespaces"))),
            ("/api/v1/namespaces/n/status", Some(("", "v1", "namespaces"))),
            ("/apis/g.x/v1beta2/namespaces/n/machines/m/status", Some(("g.x", "v1beta2", "machines"))),
            ("/apis/g.x/v1/things/t", Some(("g.x", "v1", "things"))),
            ("/version", None),
            ("/apis/g.x/v1", None),
        ] {
            let wire = wire_of(path);
            let found = wire.as_ref().map(|w| (w.group.as_str(), w.version.as_str(), w.plural.as_str()));
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn writes_are_signed_once() {
        for (method, uri, expected) in [
            (Method::PATCH, "/apis/g/v1/things/t?", "/apis/g/v1/things/t?fieldManager=me"),
            (Method::POST, "/apis/g/v1/things?pretty=1", "/apis/g/v1/things?pretty=1&fieldManager=me"),
            (Method::PATCH, "/x?fieldManager=you", "/x?fieldManager=you"),
            (Method::GET, "/x?limit=1", "/x?limit=1"),
            (Method::PUT, "http://a:1/x", "http://a:1/x?fieldManager=me"),
        ] {
            let request = Request::builder().method(method).uri(uri).body(()).expect("a request");
            assert_eq!(signed(request, "me").uri().to_string(), expected);
        }
    }

    #[test]
    fn only_writes_that_count_are_heard() {
        let request = |method: Method, uri: &str| {
            Request::builder().method(method).uri(uri).body(()).expect("a request")
        };
        let path = "/api/v1/namespaces/n/secrets/s";
        assert!(written(&request(Method::PATCH, &format!("{path}?fieldManager=a"))).is_some());
        assert!(written(&request(Method::PATCH, &format!("{path}?dryRun=All"))).is_none());
        assert!(written(&request(Method::GET, path)).is_none());
    }
}
