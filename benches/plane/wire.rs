//! One client: one connection, TLS with a client certificate, HTTP/1.1 with keep-alive. It does without a client
//! library, so that only the server is measured.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;

/// Where a plane is and whom it knows, out of an administrator's kubeconfig.
#[derive(Clone)]
pub(crate) struct PlaneEndpoint {
    /// Host and port.
    address: String,
    connector: TlsConnector,
}

impl PlaneEndpoint {
    pub(crate) fn of(kubeconfig: &Path) -> Result<Self> {
        let (address, roots, user) = read(kubeconfig)?;
        let chain = decoded(&user["client-certificate-data"])?;
        let chain = CertificateDer::pem_slice_iter(&chain).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(&decoded(&user["client-key-data"])?)?;
        let tls = ClientConfig::builder().with_root_certificates(roots).with_client_auth_cert(chain, key)?;
        Ok(Self { address, connector: TlsConnector::from(Arc::new(tls)) })
    }

    /// The same plane for clients without a certificate.
    #[allow(dead_code, reason = "clients of the benchmark of agents show tokens")]
    pub(crate) fn without_certificate(kubeconfig: &Path) -> Result<Self> {
        let (address, roots, _) = read(kubeconfig)?;
        let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Ok(Self { address, connector: TlsConnector::from(Arc::new(tls)) })
    }

    /// A connection of its own.
    pub(crate) async fn enter(&self) -> Result<Client> {
        self.enter_from(Ipv4Addr::UNSPECIFIED, None).await
    }

    /// A connection from this address, with this bearer token.
    pub(crate) async fn enter_from(&self, source: Ipv4Addr, token: Option<&str>) -> Result<Client> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((source, 0)))?;
        let stream = socket.connect(self.address.parse().context("an address that is none")?).await?;
        stream.set_nodelay(true)?;
        let host = self.address.rsplit_once(':').context("an address without a port")?.0;
        let stream = self.connector.connect(ServerName::try_from(host.to_owned())?, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let token = token.map(|token| format!("Bearer {token}"));
        Ok(Client { sender, host: self.address.clone(), token })
    }
}

/// Address, authorities and user of a kubeconfig.
fn read(kubeconfig: &Path) -> Result<(String, RootCertStore, Value)> {
    let text = std::fs::read_to_string(kubeconfig).context("cannot read the kubeconfig")?;
    let config: Value = serde_saphyr::from_str(&text).context("the kubeconfig is no YAML")?;
    let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
    let address = cluster["server"].as_str().and_then(|url| url.strip_prefix("https://"));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&decoded(&cluster["certificate-authority-data"])?) {
        roots.add(certificate?)?;
    }
    let address = address.context("a kubeconfig without an https address")?.to_owned();
    Ok((address, roots, user.clone()))
}

fn decoded(text: &Value) -> Result<Vec<u8>> {
    BASE64_STANDARD.decode(text.as_str().context("a kubeconfig without certificates")?).context("no base64")
}

/// A connection on which one request follows the other.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    token: Option<String>,
}

impl Client {
    /// Sends a request and reads the head of the answer.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let media = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.host)
            .header("user-agent", "capstan-bench")
            .header("accept", "application/json")
            .header("content-type", media);
        if let Some(token) = &self.token {
            request = request.header("authorization", token);
        }
        let request = request.body(Full::new(body))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request and reads the whole answer, which must be one of success.
    pub(crate) async fn ask(&mut self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        let response = self.send(method, path, body).await?;
        let status = response.status();
        let answer = response.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        ensure!(status.is_success(), "{path}: {status} {}", String::from_utf8_lossy(&answer));
        Ok(answer)
    }
}
