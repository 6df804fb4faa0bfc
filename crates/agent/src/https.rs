//! Requests over TLS that trust only certain CAs. There is no request without TLS, no redirection, and no fallback to
//! other CAs.

use bytes::Bytes;
use capstan_pki::RootsError;
use capstan_plan::SourceProxy;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::tunnel;

/// Timeout of a connection.
const CONNECTING: Duration = Duration::from_secs(20);

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The input is not valid PEM.
    #[error("{0} is not in PEM")]
    Pem(&'static str),
    /// There is no usable CA certificate.
    #[error("there is no CA certificate to trust")]
    NoCa,
    /// Certificate and key do not belong together.
    #[error("the client certificate cannot be used: {0}")]
    Identity(rustls::Error),
}

/// Trusted CAs, and the client certificate.
#[derive(Clone)]
pub struct Trust(Arc<ClientConfig>);

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trust")
    }
}

impl Trust {
    /// Trusts the CAs of the operating system.
    ///
    /// # Errors
    /// If there are none.
    pub fn system() -> Result<Self, TrustError> {
        Self::new(of_system(), None)
    }

    /// Trusts only these CAs, given in PEM.
    ///
    /// # Errors
    /// If there is none.
    pub fn pinned(ca: &[u8]) -> Result<Self, TrustError> {
        Self::new(authorities(ca)?, None)
    }

    /// Trusts only these CAs, and sends a client certificate.
    ///
    /// # Errors
    /// If there is no CA, or the certificate does not belong to the key.
    pub fn mutual(ca: &[u8], certificate: &[u8], key: &[u8]) -> Result<Self, TrustError> {
        Self::new(authorities(ca)?, Some(identity(certificate, key)?))
    }

    /// Trusts only these CAs, given in PEM, or else those of the operating system; and sends a client certificate, if there is
    /// one.
    ///
    /// # Errors
    /// If there is no CA, or the certificate does not belong to the key.
    pub fn with(ca: Option<&[u8]>, client: Option<(Vec<u8>, Vec<u8>)>) -> Result<Self, TrustError> {
        let roots = match ca {
            Some(ca) => authorities(ca)?,
            None => of_system(),
        };
        let client = client.map(|(certificate, key)| identity(&certificate, &key)).transpose()?;
        Self::new(roots, client)
    }

    fn new(roots: RootCertStore, identity: Option<Identity>) -> Result<Self, TrustError> {
        if roots.is_empty() {
            return Err(TrustError::NoCa);
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TrustError::Identity)?
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(TrustError::Identity)?,
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

/// A client certificate with its chain, and its key.
type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(certificate: &[u8], key: &[u8]) -> Result<Identity, TrustError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|_| TrustError::Pem("the client certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TrustError::Pem("the client key"))?;
    Ok((chain, key))
}

/// The CAs of the operating system.
fn of_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// TCP keepalive and user timeout: a connection to a peer that is gone ends within a minute, because a watch may be
/// idle for hours.
fn stay_awake(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(30))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(10))?;
    Ok(sockopt::set_tcp_keepcnt(stream, 3)?)
}

fn authorities(pem: &[u8]) -> Result<RootCertStore, TrustError> {
    capstan_pki::roots(pem).map_err(|error| match error {
        RootsError::Pem(_) => TrustError::Pem("the authority"),
        RootsError::Certificate(_) => TrustError::NoCa,
    })
}

/// An HTTP/1.1 connection over TLS. Requests are sent one after the other.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Connects, and verifies the server.
    ///
    /// # Errors
    /// If the server does not respond in time, or its certificate is not trusted.
    pub async fn open(trust: &Trust, host: &str, port: u16) -> io::Result<Self> {
        Self::open_through(None, trust, host, port).await
    }

    /// Connects through a proxy, if there is one, and verifies the server.
    ///
    /// # Errors
    /// If the proxy or the server does not respond in time, the proxy refuses, or the certificate of the server is not trusted.
    pub async fn open_through(
        proxy: Option<&SourceProxy>,
        trust: &Trust,
        host: &str,
        port: u16,
    ) -> io::Result<Self> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "there was no answer in time");
        tokio::time::timeout(CONNECTING, Self::connect(proxy, trust, host, port)).await.map_err(|_| late())?
    }

    async fn connect(proxy: Option<&SourceProxy>, trust: &Trust, host: &str, port: u16) -> io::Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = match proxy {
            Some(proxy) => tunnel::open(proxy, host, port).await?,
            None => TcpStream::connect((host, port)).await?,
        };
        stream.set_nodelay(true)?;
        stay_awake(&stream)?;
        let stream = TlsConnector::from(Arc::clone(&trust.0)).connect(name, stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // How it ended is told to whoever waits for an answer.
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender, driver })
    }

    /// Whether another request can be sent.
    pub fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends a request, which must have a `Host` header.
    ///
    /// # Errors
    /// If there is no response.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> io::Result<Response<Incoming>> {
        self.sender.ready().await.map_err(io::Error::other)?;
        self.sender.send_request(request).await.map_err(io::Error::other)
    }
}

/// For plans of rancher/system-agent.
impl Trust {
    /// Trusts the CAs of the operating system, and these. Those of the operating system are read once: there are many,
    /// and a probe asks every few seconds.
    ///
    /// # Errors
    /// If there is no CA, or the certificate does not belong to the key.
    pub fn system_and(ca: Option<&[u8]>, client: Option<(Vec<u8>, Vec<u8>)>) -> Result<Self, TrustError> {
        static SYSTEM: OnceLock<RootCertStore> = OnceLock::new();
        let mut roots = SYSTEM.get_or_init(of_system).clone();
        if let Some(ca) = ca {
            roots.extend(authorities(ca)?.roots);
        }
        let client = client.map(|(certificate, key)| identity(&certificate, &key)).transpose()?;
        Self::new(roots, client)
    }

    /// The configuration, for a connection that is not a [`Connection`].
    pub(crate) fn config(self) -> Arc<ClientConfig> {
        self.0
    }
}
