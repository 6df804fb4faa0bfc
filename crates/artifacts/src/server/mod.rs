//! The server that machines download software from: HTTPS, only by digest.
//!
//! The files are public and the client checks the digest, so clients do not authenticate. They are limited instead:
//! connections and requests for each address and altogether. The server has its own CA. Machines get its certificate
//! together with the URL.

mod answer;
mod authority;
mod range;

use capstan_net::{AddressRate, Connection, Rate, WriteTimeout};
use capstan_pki::issue::Identity;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

pub use capstan_net::ConnectionLimits;
pub use capstan_pki::folder::FolderError as AuthorityError;

use crate::{Folder, Served, Software};
use authority::Authority;

/// Its name in the log.
const NAME: &str = "artifacts";
/// Requests and new connections: a machine needs a few for each artifact.
const EACH_ADDRESS: Rate = Rate { per_second: 50.0, burst: 500.0 };
const ALL_ADDRESSES: Rate = Rate { per_second: 1000.0, burst: 5000.0 };
/// How long a machine may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a machine may not read what it has asked for.
const STALLED: Duration = Duration::from_secs(60);

/// Options of the server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address to listen on. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// URL for machines, such as `https://10.0.0.1:6441`. Without it, the URL is made from `host` and the port that the
    /// server listens on.
    pub url: Option<String>,
    /// Name or address for machines, if it differs from the address that the server listens on.
    pub host: Option<String>,
    /// Folder of the server's CA.
    pub authority: PathBuf,
    /// Limits of its connections. A connection has one request at a time, so these are also the limits of concurrent
    /// requests.
    pub connections: ConnectionLimits,
}

/// The limits of connections by default: many machines behind one address may fetch at once.
pub const CONNECTIONS: ConnectionLimits =
    ConnectionLimits { per_address: 128, total: 512, unaccepted: Duration::from_secs(30) };

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The URL for machines is invalid.
    #[error("{0} is not an address that machines could use: it must be https://HOST:PORT and nothing more")]
    Url(String),
    /// The CA cannot be read or created.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The new certificate cannot be parsed.
    #[error("cannot use the certificate of the artifact server: {0}")]
    Pem(#[from] pem::Error),
    /// TLS cannot be configured.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    served: Served,
    software: Software,
    _accepting: JoinSet<()>,
}

impl Server {
    /// Serves the files of a folder.
    ///
    /// # Errors
    /// If it cannot listen, or its certificate cannot be created.
    pub async fn start(folder: Folder, options: &Options) -> Result<Self, ServeError> {
        let listen = |source| ServeError::Listen { address: options.listen, source };
        let listener = TcpListener::bind(options.listen).await.map_err(listen)?;
        let bound = listener.local_addr().map_err(listen)?;
        let url = options.url.clone().unwrap_or_else(|| {
            let host = options.host.clone().unwrap_or_else(|| bound.ip().to_string());
            // An IPv6 address stands in brackets where a port follows.
            let host = if host.contains(':') { format!("[{host}]") } else { host };
            format!("https://{host}:{}", bound.port())
        });
        let url = url.strip_suffix('/').unwrap_or(&url).to_owned();
        let host = host_of(&url).ok_or_else(|| ServeError::Url(url.clone()))?;
        let authority = Authority::open(&options.authority)?;
        let mut hosts = vec![host, "localhost".to_owned()];
        if !bound.ip().is_unspecified() {
            hosts.push(bound.ip().to_string());
        }
        hosts.sort();
        hosts.dedup();
        let identity = authority.serving(&hosts)?;
        let acceptor = acceptor(&identity)?;
        let served = Served { url, ca: authority.certificate().to_owned() };
        let software = Software::in_folder(folder, Some(served.clone()));
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, acceptor, software.clone(), options.connections));
        Ok(Self { served, software, _accepting: accepting })
    }

    /// URL and CA for machines.
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// The software it serves.
    pub fn software(&self) -> Software {
        self.software.clone()
    }
}

/// The host of `https://HOST:PORT`, without brackets.
fn host_of(url: &str) -> Option<String> {
    let uri: http::Uri = url.parse().ok()?;
    let is_plain = uri.scheme_str() == Some("https") && uri.path() == "/" && uri.query().is_none();
    let authority = uri.authority().filter(|authority| is_plain && !authority.as_str().contains('@'))?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| host.to_owned())
}

fn acceptor(identity: &Identity) -> Result<TlsAcceptor, ServeError> {
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, software: Software, limits: ConnectionLimits) {
    let rate = Arc::new(AddressRate::new(EACH_ADDRESS, ALL_ADDRESSES));
    let handle = |stream, address, place| {
        let client = Client { address, place, rate: Arc::clone(&rate) };
        serve(stream, acceptor.clone(), software.clone(), client)
    };
    // Until this task is dropped.
    capstan_net::serve_limited(listener, NAME, limits, &rate, std::future::pending(), handle).await;
}

/// The client of a connection.
#[derive(Clone)]
struct Client {
    address: IpAddr,
    place: Arc<Connection>,
    rate: Arc<AddressRate>,
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, software: Software, client: Client) {
    let stream = WriteTimeout::new(stream, STALLED);
    let Some(stream) = capstan_net::handshake(&acceptor, stream, PATIENCE, NAME).await else { return };
    let service = service_fn(move |request| {
        let (software, client) = (software.clone(), client.clone());
        async move {
            if !client.rate.take(client.address, Instant::now()) {
                return Ok(answer::too_many_requests());
            }
            let response = answer::answer(&software, &request).await;
            if response.status().is_success() {
                client.place.request_accepted();
            }
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "connection");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_address_is_one() {
        for (url, host) in [
            ("https://10.0.0.1:6441", Some("10.0.0.1")),
            ("https://plane.example", Some("plane.example")),
            ("https://[fd00::1]:6441", Some("fd00::1")),
            ("http://10.0.0.1:6441", None),
            ("https://10.0.0.1:6441/more", None),
            ("https://a@10.0.0.1", None),
            ("https://", None),
            ("10.0.0.1:6441", None),
            ("", None),
        ] {
            assert_eq!(host_of(url).as_deref(), host, "{url}");
        }
    }
}
