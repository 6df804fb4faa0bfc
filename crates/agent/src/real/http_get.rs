//! GET over HTTP or HTTPS with files of the machine as certificates; returns only the status code, for probes.

use capstan_plan::{HttpUrl, HttpsUrl, MachinePath, SourceUrl};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Linux;
use crate::https::Trust;
use crate::machine::{HttpGet, Machine as _, MachineError};
use crate::status_line::status;

/// Largest head of a response.
const HEAD: usize = 16 * 1024;

/// Largest file with a certificate or key.
const PEM: u64 = 1024 * 1024;

/// Largest number of redirects.
const REDIRECTS: usize = 10;

pub(super) async fn get(machine: &Linux, request: &HttpGet, within: Duration) -> Result<u16, MachineError> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "there was no answer in time");
    let cannot = |error| MachineError::io(format!("ask {}", request.url), error);
    tokio::time::timeout(within, follow(machine, request)).await.map_err(late).map_err(cannot)?
}

async fn follow(machine: &Linux, request: &HttpGet) -> Result<u16, MachineError> {
    let cannot = |error| MachineError::io(format!("ask {}", request.url), error);
    let mut url = Url::parse(&request.url).map_err(cannot)?;
    let mut tls = None;
    for _ in 0..=REDIRECTS {
        let head = match &url {
            Url::Http(_) => {
                let stream = TcpStream::connect((url.host(), url.port())).await.map_err(cannot)?;
                ask(stream, &url).await
            }
            Url::Https(_) => {
                if tls.is_none() {
                    tls = Some(config(machine, request).await?);
                }
                let Some(config) = &tls else { continue };
                ask_over_tls(Arc::clone(config), &url).await
            }
        };
        let head = head.map_err(cannot)?;
        let redirected =
            head.location.as_deref().filter(|_| matches!(head.status, 301 | 302 | 303 | 307 | 308));
        match redirected.and_then(|location| url.redirected(location)) {
            Some(next) => url = next,
            None => return Ok(head.status),
        }
    }
    Err(cannot(io::Error::other(format!("it redirected more than {REDIRECTS} times"))))
}

enum Url {
    Http(HttpUrl),
    Https(HttpsUrl),
}

impl Url {
    fn parse(text: &str) -> io::Result<Self> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a URL of http or https");
        let after_scheme = text.split_once("://").ok_or_else(invalid)?.1;
        let text = if after_scheme.contains('/') { text.to_owned() } else { format!("{text}/") };
        if text.starts_with("http://") {
            return HttpUrl::new(text).map(Self::Http).map_err(|_| invalid());
        }
        match SourceUrl::new(text) {
            Ok(SourceUrl::Https(url)) => Ok(Self::Https(url)),
            _ => Err(invalid()),
        }
    }

    fn host(&self) -> &str {
        match self {
            Self::Http(url) => url.host(),
            Self::Https(url) => url.host(),
        }
    }

    const fn port(&self) -> u16 {
        match self {
            Self::Http(url) => url.port(),
            Self::Https(url) => url.port(),
        }
    }

    fn authority(&self) -> &str {
        match self {
            Self::Http(url) => url.authority(),
            Self::Https(url) => url.authority(),
        }
    }

    fn path(&self) -> &str {
        match self {
            Self::Http(url) => url.path(),
            Self::Https(url) => url.path(),
        }
    }

    /// The target of a redirect, if it is on the same host.
    fn redirected(&self, location: &str) -> Option<Self> {
        let scheme = if matches!(self, Self::Http(_)) { "http" } else { "https" };
        let next = if location.contains("://") {
            location.to_owned()
        } else if location.starts_with("//") {
            format!("{scheme}:{location}")
        } else if location.starts_with('/') {
            format!("{scheme}://{}{location}", self.authority())
        } else {
            let path = self.path().split('?').next().unwrap_or("/");
            let folder = &path[..=path.rfind('/').unwrap_or(0)];
            format!("{scheme}://{}{folder}{location}", self.authority())
        };
        Self::parse(&next).ok().filter(|next| next.host() == self.host())
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    location: Option<String>,
}

async fn ask_over_tls(config: Arc<ClientConfig>, url: &Url) -> io::Result<Head> {
    let name = ServerName::try_from(url.host().to_owned()).map_err(io::Error::other)?;
    let stream = TcpStream::connect((url.host(), url.port())).await?;
    ask(TlsConnector::from(config).connect(name, stream).await?, url).await
}

async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, url: &Url) -> io::Result<Head> {
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: capstan-agent\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        url.path(),
        url.authority()
    );
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut bytes = Vec::new();
    while bytes.len() < HEAD && !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut buffer = [0; 1024];
        match stream.read(&mut buffer).await {
            Ok(0) => break,
            Ok(length) => bytes.extend_from_slice(&buffer[..length]),
            // A server that closes without a word of TLS has answered nevertheless.
            Err(_) if status(&bytes).is_some() => break,
            Err(error) => return Err(error),
        }
    }
    head(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP"))
}

fn head(bytes: &[u8]) -> Option<Head> {
    let status = status(bytes)?;
    let text = String::from_utf8_lossy(bytes);
    let fields =
        text.lines().skip(1).take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
    let location = fields
        .filter(|(name, _)| name.eq_ignore_ascii_case("location"))
        .map(|(_, value)| value.trim().to_owned())
        .next();
    Some(Head { status, location })
}

async fn config(machine: &Linux, request: &HttpGet) -> Result<Arc<ClientConfig>, MachineError> {
    let cannot = |error| MachineError::io(format!("ask {}", request.url), io::Error::other(error));
    if request.is_insecure {
        return unverified().map_err(cannot);
    }
    let read = async |path: &MachinePath| machine.read(&machine.real_path(path).await?, PEM).await;
    let ca = match &request.ca {
        Some(path) => Some(read(path).await?),
        None => None,
    };
    let identity = match &request.identity {
        Some((certificate, key)) => Some((read(certificate).await?, read(key).await?)),
        None => None,
    };
    Trust::system_and(ca.as_deref(), identity)
        .map(Trust::config)
        .map_err(|error| MachineError::io(format!("ask {}", request.url), io::Error::other(error)))
}

/// Accepts any certificate. Private to this module: only a probe that asks for it gets it.
fn unverified() -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = Arc::new(Unverified(Arc::clone(&provider)));
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_on_the_host() {
        let table = [
            ("http://a/x/y?q", "/z", Some("http://a/z")),
            ("http://a:8080/x/y?q=/1", "z", Some("http://a:8080/x/z")),
            ("http://a/", "//a/b", Some("http://a/b")),
            ("http://a/", "https://a:1/b", Some("https://a:1/b")),
            ("https://a:1", "http://b/", None),
            ("https://a:1", "ftp://a/", None),
        ];
        for (from, location, expected) in table {
            let next = Url::parse(from).expect(from).redirected(location);
            let expected = expected.map(|expected| Url::parse(expected).expect(expected));
            let text = |url: &Url| format!("{} {} {}", url.port(), url.authority(), url.path());
            assert_eq!(next.as_ref().map(text), expected.as_ref().map(text), "{from} {location}");
        }
    }

    #[test]
    fn heads_are_read() {
        let read = |text: &str| head(text.as_bytes()).map(|head| (head.status, head.location));
        let moved = "HTTP/1.1 302 Found\r\nlocation: /x\r\n\r\nLocation: /y";
        assert_eq!(read(moved), Some((302, Some("/x".to_owned()))));
        assert_eq!(read("HTTP/1.1 200 OK\r\n\r\nLocation: /y"), Some((200, None)));
        assert_eq!(read("SSH-2.0\r\n"), None);
    }
}
