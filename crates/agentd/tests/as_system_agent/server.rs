//! A server over TLS with an authority of its own, whose answers are decided by the test.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use rustls::pki_types::PrivateKeyDer;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: String,
}

/// An answer. Without a length, it ends with the connection.
pub(crate) struct Answer {
    pub(crate) status: &'static str,
    pub(crate) header: Option<String>,
    pub(crate) body: Vec<u8>,
    pub(crate) has_length: bool,
}

impl Answer {
    pub(crate) fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self { status: "200 OK", header: None, body: body.into(), has_length: true }
    }

    pub(crate) fn status(status: &'static str) -> Self {
        Self { status, ..Self::ok("") }
    }

    pub(crate) fn with(self, header: String) -> Self {
        Self { header: Some(header), ..self }
    }
}

pub(crate) struct Server {
    pub(crate) port: u16,
    /// The CA, in PEM.
    pub(crate) ca: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Answers requests to its port.
    pub(crate) async fn start(answers: impl Fn(u16, &Asked) -> Answer + Send + 'static) -> Self {
        let (ca, acceptor) = tls();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else { break };
                    head.push(byte);
                }
                let head = String::from_utf8(head).unwrap();
                let field = |name: &str| {
                    let fields = head.lines().filter_map(|line| line.split_once(':'));
                    let mut values = fields.filter(|(key, _)| key.eq_ignore_ascii_case(name));
                    values.next().map(|(_, value)| value.trim().to_owned())
                };
                let length = field("content-length").map_or(0, |length| length.parse().unwrap());
                let mut body = vec![0; length];
                if stream.read_exact(&mut body).await.is_err() {
                    continue;
                }
                let line = head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
                let request = Asked {
                    line,
                    authorization: field("authorization"),
                    body: String::from_utf8(body).unwrap(),
                };
                let answer = answers(port, &request);
                heard.lock().unwrap().push(request);
                let _ = stream.write_all(&written(&answer)).await;
                let _ = stream.shutdown().await;
            }
        });
        Self { port, ca, asked, task }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn written(answer: &Answer) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {}\r\nconnection: close\r\n", answer.status);
    if answer.has_length {
        head.push_str(&format!("content-length: {}\r\n", answer.body.len()));
    }
    if let Some(header) = &answer.header {
        head.push_str(&format!("{header}\r\n"));
    }
    [head.as_bytes(), b"\r\n", &answer.body].concat()
}

fn tls() -> (String, TlsAcceptor) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    (authority.pem(), TlsAcceptor::from(Arc::new(config)))
}
