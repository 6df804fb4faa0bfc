//! Corrects responses of workload clusters whose API server differs from kube-apiserver.
//!
//! Upstream's in-memory server writes a watch event over several lines, although clients expect one line for each event, and
//! omits the code in `Status` bodies. This layer puts each event on one line and sets the code to that of the response.

use bytes::Bytes;
use futures::TryStreamExt as _;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower::{Layer, Service};

use super::request_timeout::is_watch;

/// At most this much of the body of an error is read.
const LONGEST_ERROR: usize = 64 * 1024;

type Body = UnsyncBoxBody<Bytes, BoxError>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The layer. See the module.
#[derive(Clone, Copy)]
pub(super) struct ResponseFixes;

impl<S> Layer<S> for ResponseFixes {
    type Service = FixedResponses<S>;

    fn layer(&self, inner: S) -> FixedResponses<S> {
        FixedResponses { inner }
    }
}

#[derive(Clone)]
pub(super) struct FixedResponses<S> {
    inner: S,
}

impl<S, B, A> Service<Request<B>> for FixedResponses<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    A: http_body::Body<Data = Bytes> + Send + 'static,
    A::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_watch = is_watch(request.uri());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let (head, body) = answer.await.map_err(Into::into)?.into_parts();
            if head.status.is_client_error() || head.status.is_server_error() {
                let text = Limited::new(body, LONGEST_ERROR).collect().await;
                let text = text.map(http_body_util::Collected::to_bytes).unwrap_or_default();
                return Ok(error(head, &text));
            }
            let body = body.map_err(Into::into);
            if !is_watch {
                return Ok(Response::from_parts(head, body.boxed_unsync()));
            }
            let mut lines = Lines::default();
            let events = body.into_data_stream().map_ok(move |piece| Frame::data(lines.reframe(&piece)));
            Ok(Response::from_parts(head, StreamBody::new(events).boxed_unsync()))
        })
    }
}

/// An error response whose `Status` has the HTTP code of the response.
fn error(mut head: http::response::Parts, text: &[u8]) -> Response<Body> {
    let body: Value = serde_json::from_slice(text).unwrap_or_default();
    let word = |field: &str| body.get(field).and_then(Value::as_str).filter(|word| !word.is_empty());
    let reason = word("reason").or(head.status.canonical_reason()).unwrap_or_default();
    let message = word("message").map_or_else(|| String::from_utf8_lossy(text).into_owned(), str::to_owned);
    let mut status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure",
        "code": head.status.as_u16(), "reason": reason, "message": message,
    });
    if let Some(details) = body.get("details").filter(|details| details.is_object()) {
        status["details"] = details.clone();
    }
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {});
    head.headers.remove(http::header::CONTENT_LENGTH);
    head.headers.remove(http::header::TRANSFER_ENCODING);
    Response::from_parts(head, body.boxed_unsync())
}

/// Where in a stream of JSON objects we are.
#[derive(Debug, Default)]
struct Lines {
    depth: usize,
    in_text: bool,
    is_escaped: bool,
}

impl Lines {
    /// The same objects, each on a line of its own. A line break inside an object is a space between words of JSON: inside of
    /// texts they are written differently.
    fn reframe(&mut self, piece: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(piece.len() + 1);
        for &byte in piece {
            if self.in_text {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_text = false,
                    _ => {}
                }
                out.push(byte);
                continue;
            }
            match byte {
                b'\n' | b'\r' => continue,
                b'"' => self.in_text = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            out.push(byte);
            if byte == b'}' && self.depth == 0 {
                out.push(b'\n');
            }
        }
        out.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a stream in pieces of this length.
    fn reframed(stream: &str, length: usize) -> String {
        let mut lines = Lines::default();
        let pieces = stream.as_bytes().chunks(length).flat_map(|piece| lines.reframe(piece).to_vec());
        String::from_utf8(pieces.collect()).expect("text")
    }

    #[test]
    fn each_event_is_one_line_however_it_comes() {
        let sent = "{\n  \"type\": \"ADDED\",\n  \"object\": {\"a\": \"} \\\" {\\n\", \"b\": [\n1,\n2]}\n}\n{\"type\":\"X\"}";
        let expected = "{  \"type\": \"ADDED\",  \"object\": {\"a\": \"} \\\" {\\n\", \"b\": [1,2]}}\n{\"type\":\"X\"}\n";
        for length in 1..sent.len() {
            assert_eq!(reframed(sent, length), expected, "pieces of {length}");
        }
        for line in expected.lines() {
            assert!(serde_json::from_str::<Value>(line).is_ok());
        }
        // What is right stays as it is.
        assert_eq!(reframed(expected, 7), expected);
    }

    async fn answered(code: u16, text: &'static str) -> kube::Error {
        let server = tower::service_fn(move |_: Request<kube::client::Body>| async move {
            let answer = Response::builder().status(code).body(Full::new(Bytes::from(text)));
            Ok::<_, BoxError>(answer.expect("an answer"))
        });
        let client = kube::Client::new(ResponseFixes.layer(server), "default");
        let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(client);
        nodes.get("n").await.expect_err("an error")
    }

    #[tokio::test]
    async fn an_error_has_the_code_of_its_answer() {
        for text in [
            "",
            "404 page not found",
            r#"{"kind": "Status", "status": "Failure", "message": "gone", "reason": "NotFound"}"#,
            r#"{"error": "no such node"}"#,
            "[1, 2]",
        ] {
            let error = answered(404, text).await;
            let is_missing = matches!(&error, kube::Error::Api(status) if status.code == 404);
            assert!(is_missing, "{text}: {error:?}");
        }
        let refused = answered(409, r#"{"reason": "Conflict", "details": {"name": "n"}}"#).await;
        let kube::Error::Api(status) = refused else { panic!("{refused:?}") };
        assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
        assert_eq!(status.details.map(|details| details.name).as_deref(), Some("n"));
    }
}
