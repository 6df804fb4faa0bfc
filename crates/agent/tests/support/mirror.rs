//! A server of one file over TLS, with an authority of its own, that behaves as badly as it is told to.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    Good,
    /// Answers with this status and no content.
    Status(&'static str),
    /// Sends something else.
    Other(Vec<u8>),
    /// Closes the connection after so many bytes.
    CutAt(usize),
    /// The same, and what it has sent is wrong.
    LieThenCutAt(usize),
    /// Sends nothing more after so many bytes.
    HangAt(usize),
    /// Always sends all of it.
    NoRanges,
}

pub(crate) struct Mirror {
    pub(crate) port: u16,
    pub(crate) ca: String,
    behaviour: Arc<Mutex<Behaviour>>,
    asked: Arc<Mutex<Vec<String>>>,
    server: JoinHandle<()>,
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Mirror {
    pub(crate) async fn start(content: &[u8]) -> Self {
        let (ca, acceptor) = tls();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let behaviour = Arc::new(Mutex::new(Behaviour::Good));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (content, how, heard) = (content.to_vec(), Arc::clone(&behaviour), Arc::clone(&asked));
        let server = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // Whoever does not believe us hangs up.
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else { break };
                    request.push(byte);
                }
                let request = String::from_utf8(request).unwrap();
                heard.lock().unwrap().push(request.clone());
                let how = how.lock().unwrap().clone();
                let (answer, hangs) = answer(&content, &request, how);
                let _ = stream.write_all(&answer).await;
                let _ = stream.flush().await;
                if hangs {
                    let _ = stream.read_u8().await;
                }
                let _ = stream.shutdown().await;
            }
        });
        Self { port, ca, behaviour, asked, server }
    }

    pub(crate) fn behave(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap() = behaviour;
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(content: &[u8], request: &str, how: Behaviour) -> (Vec<u8>, bool) {
    let from = request
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("range: bytes=").map(str::to_owned))
        .and_then(|range| range.trim_end_matches('-').parse::<usize>().ok())
        .filter(|_| !matches!(how, Behaviour::NoRanges))
        .unwrap_or(0);
    let total = content.len();
    let head = match from {
        0 => format!("HTTP/1.1 200 OK\r\ncontent-length: {total}\r\n\r\n"),
        _ => format!(
            "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes {from}-{}/{total}\r\ncontent-length: {}\r\n\r\n",
            total - 1,
            total - from
        ),
    };
    let whole = |content: &[u8]| [head.as_bytes(), content].concat();
    match how {
        Behaviour::Good | Behaviour::NoRanges => (whole(&content[from..]), false),
        Behaviour::Status(status) => {
            (format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").into_bytes(), false)
        }
        Behaviour::Other(other) => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", other.len());
            ([head.as_bytes(), &other].concat(), false)
        }
        Behaviour::CutAt(at) => (whole(&content[from.min(at)..at]), false),
        Behaviour::LieThenCutAt(at) => (whole(&vec![0; at - from.min(at)]), false),
        Behaviour::HangAt(at) => (whole(&content[from.min(at)..at]), true),
    }
}

fn tls() -> (String, TlsAcceptor) {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let server_key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let server = server.signed_by(&server_key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![server.der().clone()],
            PrivateKeyDer::try_from(server_key.serialize_der()).unwrap(),
        )
        .unwrap();
    (ca, TlsAcceptor::from(Arc::new(config)))
}
