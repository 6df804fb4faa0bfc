//! Connections through an HTTP proxy: the request `CONNECT`, after which the proxy passes bytes on.
//!
//! The proxy learns host and port of the server. TLS is between this machine and the server, so the proxy reads and changes
//! nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use capstan_plan::SourceProxy;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::status_line::status;

/// Largest head of the response of a proxy.
const HEAD: usize = 16 * 1024;

/// The end of a head.
const END: &[u8] = b"\r\n\r\n";

/// Connects to a server through a proxy.
pub(crate) async fn open(proxy: &SourceProxy, host: &str, port: u16) -> io::Result<TcpStream> {
    let address = &proxy.address;
    let error =
        |error: io::Error| io::Error::new(error.kind(), format!("through the proxy {address}: {error}"));
    let mut stream = TcpStream::connect((address.host(), address.port())).await.map_err(error)?;
    connect(&mut stream, proxy, host, port).await.map_err(error)?;
    Ok(stream)
}

async fn connect(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    proxy: &SourceProxy,
    host: &str,
    port: u16,
) -> io::Result<()> {
    stream.write_all(request(proxy, host, port).as_bytes()).await?;
    let mut head = Vec::new();
    while !head.windows(END.len()).any(|bytes| bytes == END) {
        if head.len() >= HEAD {
            return Err(io::Error::other("its answer is too long"));
        }
        let mut buffer = [0; 1024];
        match stream.read(&mut buffer).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => head.extend_from_slice(&buffer[..length]),
        }
    }
    match status(&head) {
        // In TLS the server speaks second: whatever is here already is not from it.
        Some(200..=299) if !head.ends_with(END) => Err(io::Error::other("it sent more than an answer")),
        Some(200..=299) => Ok(()),
        Some(407) => Err(io::Error::other("it refuses the credentials, or requires some (status 407)")),
        Some(status) => Err(io::Error::other(format!("it answered {status}"))),
        None => Err(io::Error::other("its answer is not HTTP")),
    }
}

fn request(proxy: &SourceProxy, host: &str, port: u16) -> String {
    let server = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let authorization = proxy.credentials.as_ref().map(|credentials| {
        let plain = format!("{}:{}", credentials.username, credentials.password.expose());
        format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(plain))
    });
    let authorization = authorization.unwrap_or_default();
    format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\nUser-Agent: capstan-agent\r\n{authorization}\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_plan::{ProxyCredentials, SecretText};

    fn proxy(credentials: Option<(&str, &str)>) -> SourceProxy {
        SourceProxy {
            address: "proxy.example:3128".parse().expect("an address"),
            credentials: credentials.map(|(username, password)| ProxyCredentials {
                username: username.to_owned(),
                password: SecretText::new(password),
            }),
        }
    }

    #[test]
    fn the_proxy_is_told_the_server_and_the_credentials() {
        let plain = request(&proxy(None), "mirror.example", 443);
        assert!(plain.starts_with("CONNECT mirror.example:443 HTTP/1.1\r\nHost: mirror.example:443\r\n"));
        assert!(plain.ends_with("\r\n\r\n") && !plain.contains("Authorization"));
        let named = request(&proxy(Some(("user", "hunter2"))), "::1", 8443);
        assert!(named.starts_with("CONNECT [::1]:8443 HTTP/1.1\r\n"), "{named}");
        assert!(named.contains("\r\nProxy-Authorization: Basic dXNlcjpodW50ZXIy\r\n"), "{named}");
    }

    #[tokio::test]
    async fn only_a_proxy_that_says_yes_and_nothing_else_is_used() {
        for (answer, expected) in [
            ("HTTP/1.1 200 Connection established\r\n\r\n", None),
            ("HTTP/1.0 200 OK\r\nVia: x\r\n\r\n", None),
            ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", Some("407")),
            ("HTTP/1.1 503 Unavailable\r\n\r\n", Some("it answered 503")),
            ("HTTP/1.1 200 OK\r\n\r\nhello", Some("more than an answer")),
            ("SSH-2.0-x\r\n\r\n", Some("not HTTP")),
            ("HTTP/1.1 200 OK\r\n", Some("end of file")),
        ] {
            let (mut ours, mut theirs) = tokio::io::duplex(64 * 1024);
            theirs.write_all(answer.as_bytes()).await.expect("written");
            theirs.shutdown().await.expect("ended");
            let done = connect(&mut ours, &proxy(Some(("user", "hunter2"))), "mirror.example", 443).await;
            let error = done.err().map(|error| error.to_string());
            assert_eq!(error.is_some(), expected.is_some(), "{answer:?}: {error:?}");
            if let (Some(error), Some(expected)) = (error, expected) {
                assert!(error.contains(expected) && !error.contains("hunter2"), "{answer:?}: {error}");
            }
        }
        let (mut ours, mut theirs) = tokio::io::duplex(64 * 1024);
        theirs.write_all(&vec![b'x'; 2 * HEAD]).await.expect("written");
        let done = connect(&mut ours, &proxy(None), "mirror.example", 443).await;
        assert!(done.is_err_and(|error| error.to_string().contains("too long")));
    }
}
