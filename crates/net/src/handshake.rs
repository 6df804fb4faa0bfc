//! TLS handshakes with a limit: a client that says nothing holds no place for long.

use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The connection once TLS is set up. None if the client cannot do that within `limit`.
pub async fn handshake<S>(
    acceptor: &TlsAcceptor,
    stream: S,
    limit: Duration,
    server: &'static str,
) -> Option<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match tokio::time::timeout(limit, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%error, server, "TLS handshake");
            None
        }
        Err(_) => {
            tracing::debug!(server, "TLS handshake timed out");
            None
        }
    }
}
