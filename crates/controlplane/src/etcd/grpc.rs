//! One unary gRPC call: HTTP/2 over TLS, one message each way.

use bytes::Bytes;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Timeout of a call, with its connection.
const PATIENCE: Duration = Duration::from_secs(4);
/// Longest response that is read.
const MOST_BYTES: usize = 1024 * 1024;

/// gRPC status code `UNIMPLEMENTED`.
pub(super) const NOT_FOUND: u32 = 5;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// The request timed out.
    #[error("no answer within {} seconds", PATIENCE.as_secs())]
    Timeout,
    /// The address is invalid.
    #[error("{0:?} is not an https address")]
    Address(String),
    /// The connection failed.
    #[error("no connection")]
    Connection(#[source] std::io::Error),
    /// The HTTP request failed.
    #[error("no answer")]
    Http(#[source] hyper::Error),
    /// The response is malformed.
    #[error("the answer is not gRPC: {0}")]
    Answer(&'static str),
    /// etcd returned an error.
    #[error("{message}")]
    Status {
        /// The gRPC status code.
        code: u32,
        /// The message of the server.
        message: String,
    },
}

/// Calls a method of a server at `url` and returns its response.
pub(super) async fn call(
    tls: &Arc<ClientConfig>,
    url: &str,
    method: &'static str,
    message: &[u8],
) -> Result<Bytes, CallError> {
    tokio::time::timeout(PATIENCE, call_without_timeout(tls, url, method, message))
        .await
        .unwrap_or(Err(CallError::Timeout))
}

async fn call_without_timeout(
    tls: &Arc<ClientConfig>,
    url: &str,
    method: &'static str,
    message: &[u8],
) -> Result<Bytes, CallError> {
    let no_address = || CallError::Address(url.to_owned());
    let uri: Uri = url.parse().map_err(|_| no_address())?;
    let host = uri.host().filter(|_| uri.scheme_str() == Some("https")).ok_or_else(no_address)?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(443);
    let name = ServerName::try_from(bare.to_owned()).map_err(|_| no_address())?;
    let stream = TcpStream::connect((bare, port)).await.map_err(CallError::Connection)?;
    let stream =
        TlsConnector::from(Arc::clone(tls)).connect(name, stream).await.map_err(CallError::Connection)?;
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(CallError::Http)?;
    let request = Request::post(format!("https://{host}:{port}{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(framed(message)))
        .map_err(|_| no_address())?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(CallError::Http)?;
        if answer.status() != StatusCode::OK {
            return Err(CallError::Answer("it has an HTTP status of its own"));
        }
        if let Some(error) = complaint(answer.headers()) {
            return Err(error);
        }
        let body = Limited::new(answer.into_body(), MOST_BYTES).collect().await;
        let body = body.map_err(|_| CallError::Answer("it is too long, or ends too early"))?;
        if let Some(error) = body.trailers().and_then(complaint) {
            return Err(error);
        }
        unframed(&body.to_bytes())
    };
    // The connection lives as long as its one call.
    tokio::select! {
        answer = answer => answer,
        ended = connection => Err(match ended {
            Err(error) => CallError::Http(error),
            Ok(()) => CallError::Answer("the connection was closed"),
        }),
    }
}

/// A message in its wire format: not compressed, its length, its bytes.
fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap_or_default();
    [&[0], &length.to_be_bytes()[..], message].concat().into()
}

fn unframed(body: &Bytes) -> Result<Bytes, CallError> {
    let (flag, length) = match body.get(..5) {
        Some(head) => (head[0], u32::from_be_bytes([head[1], head[2], head[3], head[4]])),
        None => return Err(CallError::Answer("there is no message")),
    };
    let message = body.slice(5..);
    match flag == 0 && usize::try_from(length) == Ok(message.len()) {
        true => Ok(message),
        false => Err(CallError::Answer("it is not one plain message")),
    }
}

/// The error in the headers or trailers of a response, if any.
fn complaint(headers: &http::HeaderMap) -> Option<CallError> {
    let code: u32 = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let message = headers.get("grpc-message").and_then(|value| value.to_str().ok());
    let message: String = message.unwrap_or("no reason given").chars().take(256).collect();
    (code != 0).then_some(CallError::Status { code, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_there_and_back() {
        assert_eq!(framed(b"ab"), &b"\0\0\0\0\x02ab"[..]);
        assert_eq!(unframed(&framed(b"ab")).expect("a message"), &b"ab"[..]);
        for bad in [&b""[..], b"\0\0\0\0", b"\x01\0\0\0\x01a", b"\0\0\0\0\x02a", b"\0\0\0\0\x01ab"] {
            assert!(unframed(&Bytes::from_static(bad)).is_err());
        }
    }
}
