//! The server that is attacked, in a process of its own: what it takes of the machine can be read from outside. And clients that
//! speak to it by hand.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use capstan_apiserver::{ApiServer, Limits, Options, Rate, Storage};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http2::SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::support::pki;

pub(crate) const FOLDER: &str = "CAPSTAN_HOSTILE_FOLDER";
/// Milliseconds of CPU time that each client has, in all.
const CPU: &str = "CAPSTAN_HOSTILE_CPU";
const READY: &str = "ready to be attacked";
const USERS: [(&str, &str); 3] = [("admin", "system:masters"), ("mallory", "x"), ("bob", "y")];
/// What any answer may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) const LIMITS: fn() -> Limits = || Limits {
    requests: 60,
    watches: 120,
    connections: 60,
    all_connections: 100,
    unauthenticated: Duration::from_secs(5),
    recheck: Duration::from_secs(1),
    stall_timeout: Duration::from_secs(2),
    ..Limits::default()
};

/// Not a test of its own: the process that is attacked.
#[tokio::test(flavor = "multi_thread")]
async fn serve() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = Path::new(&folder);
    _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut limits = LIMITS();
    if let Ok(milliseconds) = std::env::var(CPU) {
        limits.cpu = Rate { per_second: 1e-6, burst: milliseconds.parse::<f64>().unwrap() / 1000.0 };
    }
    let options = Options { limits, ..Options::new(Storage::Folder(folder.join("store"))) };
    let server = ApiServer::open(options).await.unwrap();
    let authority = pki::Authority::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.serve(listener, &authority.server().unwrap()).unwrap();
    for (user, group) in USERS {
        std::fs::write(folder.join(user), authority.kubeconfig(address.port(), user, group).unwrap())
            .unwrap();
    }
    std::io::stdout().write_all(format!("\n{READY}\n").as_bytes()).unwrap();
    std::future::pending::<()>().await;
}

/// A running one; dropping it kills it.
pub(crate) struct Server {
    child: Child,
    folder: TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// One where each client has so many milliseconds of CPU time, in all.
    pub(crate) fn with_cpu_time(milliseconds: u32) -> Self {
        Self::start_with(&[(CPU, milliseconds.to_string())])
    }

    fn start_with(environment: &[(&str, String)]) -> Self {
        _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "server::serve", "--nocapture", "--test-threads=1"])
            .env(FOLDER, folder.path())
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.map_while(Result::ok).any(|line| line == READY);
        assert!(ready, "the server ended instead of starting");
        Self { child, folder }
    }

    /// Megabytes that it has resident.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    }

    /// Files that it has open.
    pub(crate) fn files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    pub(crate) fn client(&self, user: &str) -> Client {
        let text = std::fs::read_to_string(self.folder.path().join(user)).unwrap();
        let config: Value = serde_json::from_str(&text).unwrap();
        let pem = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        let authority = &config["clusters"][0]["cluster"];
        roots
            .add(CertificateDer::from_pem_slice(&pem(&authority["certificate-authority-data"])).unwrap())
            .unwrap();
        let own = &config["users"][0]["user"];
        let chain = vec![CertificateDer::from_pem_slice(&pem(&own["client-certificate-data"])).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(&pem(&own["client-key-data"])).unwrap();
        let tls = rustls::ClientConfig::builder().with_root_certificates(roots);
        let tls = tls.with_client_auth_cert(chain, key).unwrap();
        let url = authority["server"].as_str().unwrap().strip_prefix("https://").unwrap();
        Client { address: url.parse().unwrap(), tls }
    }

    /// Fails unless somebody else is answered, who comes from another address.
    pub(crate) async fn still_serves(&self) {
        let admin = self.client("admin");
        let mut connection = admin.many_from([127, 0, 0, 77]).await;
        let map = r#"{"metadata":{"generateName":"alive-"}}"#;
        let made =
            send(&mut connection, "POST", "/api/v1/namespaces/default/configmaps", "application/json", map)
                .await;
        assert_eq!(made.0, 201, "{}", made.1);
        let health = send(&mut connection, "GET", "/readyz", "", "").await;
        assert_eq!(health, (200, "ok".to_owned()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        assert!(killed.is_ok() || std::thread::panicking(), "{killed:?}");
    }
}

/// Somebody with a certificate.
#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    tls: rustls::ClientConfig,
}

impl Client {
    /// A bare connection from an address of this machine.
    pub(crate) async fn tcp(&self, from: [u8; 4]) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((from, 0)))?;
        timeout(SOON, socket.connect(self.address)).await.unwrap()
    }

    /// A connection in which one request follows the other.
    pub(crate) async fn one(&self) -> std::io::Result<TlsStream<TcpStream>> {
        self.tls_from([127, 0, 0, 1], b"http/1.1").await
    }

    /// A connection on which nothing was sent after the TLS handshake.
    pub(crate) async fn tls_from(
        &self,
        from: [u8; 4],
        protocol: &[u8],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut tls = self.tls.clone();
        tls.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::IpAddress(self.address.ip().into());
        let tcp = self.tcp(from).await?;
        timeout(SOON, TlsConnector::from(Arc::new(tls)).connect(name, tcp)).await.unwrap()
    }

    /// A connection with many requests at once.
    pub(crate) async fn many(&self) -> SendRequest<Full<Bytes>> {
        self.many_from([127, 0, 0, 1]).await
    }

    async fn many_from(&self, from: [u8; 4]) -> SendRequest<Full<Bytes>> {
        let stream = self.tls_from(from, b"h2").await.unwrap();
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = handshake.await.unwrap();
        tokio::spawn(async move { _ = connection.await });
        sender
    }
}

pub(crate) fn request(method: &str, path: &str, media: &str, body: &str) -> Request<Full<Bytes>> {
    let request =
        Request::builder().method(method).uri(format!("https://server{path}")).header("content-type", media);
    request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()
}

/// Sends a request and leaves the body of the answer where it is.
pub(crate) async fn open(
    connection: &mut SendRequest<Full<Bytes>>,
    method: &str,
    path: &str,
    media: &str,
    body: &str,
) -> Response<Incoming> {
    timeout(SOON, connection.ready()).await.unwrap().unwrap();
    timeout(SOON, connection.send_request(request(method, path, media, body))).await.unwrap().unwrap()
}

/// The code and the text of an answer.
pub(crate) async fn send(
    connection: &mut SendRequest<Full<Bytes>>,
    method: &str,
    path: &str,
    media: &str,
    body: &str,
) -> (u16, String) {
    let response = open(connection, method, path, media, body).await;
    let code = response.status().as_u16();
    let bytes = timeout(SOON, response.into_body().collect()).await.unwrap().unwrap().to_bytes();
    (code, String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes bytes and reads until the server hangs up; gives what came.
pub(crate) async fn until_hung_up(stream: &mut TlsStream<TcpStream>, bytes: &[u8]) -> String {
    // The server may have hung up already.
    _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    _ = timeout(SOON, stream.read_to_end(&mut answer)).await.expect("the server hangs up");
    String::from_utf8_lossy(&answer).into_owned()
}
