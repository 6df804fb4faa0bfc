//! Tests with callers over the network, with permissions on the embedded plane.

use super::*;
use capstan_apiserver::{ApiServer, Options, Storage, User};
use kube::api::{Api, PostParams};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

/// Takes any certificate, as a scraper does that is told to skip it.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
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
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

fn request(method: &str, path: &str, token: Option<&str>, body: &str) -> String {
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\n{token}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

async fn talk(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> (u16, String) {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A connection that is closed without a TLS farewell is complete, too.
    _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

async fn start(diagnostics: Diagnostics) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(diagnostics.serve(listener));
    address
}

async fn plane() -> (Arc<ApiServer>, Client) {
    let mut options = Options::new(Storage::Memory);
    for name in ["scraper", "stranger", "operator"] {
        options.tokens.insert(format!("{name}-token"), User::new(name, ["system:authenticated"]));
    }
    let server = ApiServer::open(options).await.unwrap();
    let client = Client::new(server.service(User::admin()), "default");
    for (name, path, verb) in [("scraper", METRICS, "get"), ("operator", VERBOSITY, "put")] {
        let role =
            json!({"metadata": {"name": name}, "rules": [{"nonResourceURLs": [path], "verbs": [verb]}]});
        let role: k8s_openapi::api::rbac::v1::ClusterRole = serde_json::from_value(role).unwrap();
        Api::all(client.clone()).create(&PostParams::default(), &role).await.unwrap();
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
        });
        let binding: k8s_openapi::api::rbac::v1::ClusterRoleBinding =
            serde_json::from_value(binding).unwrap();
        Api::all(client.clone()).create(&PostParams::default(), &binding).await.unwrap();
    }
    (server, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_authorized_callers_are_answered_and_only_over_tls() {
    let (_server, client) = plane().await;
    let (metrics, level) = (Metrics::default(), LogLevel::unheard());
    let address = start(Diagnostics::reviewed(metrics, level.clone(), client)).await;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.dangerous().with_custom_certificate_verifier(Arc::new(Anybody)).with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let ask = async |method: &str, path: &str, token: Option<&str>, body: &str| {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        talk(connector.connect(name, stream).await.unwrap(), &request(method, path, token, body)).await
    };
    for (method, path, token, code) in [
        ("GET", METRICS, None, 401),
        ("GET", METRICS, Some("made-up"), 401),
        ("GET", METRICS, Some("stranger-token"), 403),
        ("GET", METRICS, Some("scraper-token"), 200),
        ("POST", METRICS, Some("scraper-token"), 405),
        ("GET", VERBOSITY, Some("scraper-token"), 403),
        ("PUT", VERBOSITY, Some("scraper-token"), 403),
        ("GET", VERBOSITY, Some("operator-token"), 403),
        ("GET", "/debug/pprof/", Some("scraper-token"), 404),
    ] {
        let (found, answer) = ask(method, path, token, "4").await;
        assert_eq!(found, code, "{method} {path} {token:?}: {answer}");
    }
    let (_, answer) = ask("GET", METRICS, Some("scraper-token"), "").await;
    assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
    assert_eq!(level.current(), "", "unauthorized callers have not changed it");
    assert_eq!(ask("PUT", VERBOSITY, Some("operator-token"), "4").await.0, 200);
    assert_eq!(ask("PUT", VERBOSITY, Some("operator-token"), "loud!").await.0, 400);
    assert_eq!(ask("PUT", VERBOSITY, Some("operator-token"), &"a=info,".repeat(999)).await.0, 400);
    assert_eq!(level.current(), "4");

    let plain = TcpStream::connect(address).await.unwrap();
    let mut answer = Vec::new();
    let (mut read, mut write) = tokio::io::split(plain);
    write.write_all(request("GET", METRICS, Some("scraper-token"), "").as_bytes()).await.unwrap();
    _ = read.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "a token must not be sent in the open");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_reviews_there_are_metrics_and_nothing_to_change() {
    let level = LogLevel::unheard();
    let address = start(Diagnostics::open(Metrics::default(), level.clone())).await;
    let ask = async |method: &str, path: &str| {
        talk(TcpStream::connect(address).await.unwrap(), &request(method, path, None, "4")).await.0
    };
    assert_eq!(ask("GET", METRICS).await, 200);
    assert_eq!((ask("PUT", VERBOSITY).await, ask("GET", VERBOSITY).await), (404, 404));
    assert_eq!(level.current(), "");
}

#[tokio::test]
async fn an_address_that_is_taken_is_an_error_only_if_it_was_given() {
    assert!(listen(Some(NOWHERE)).await.unwrap().is_none());
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let error = listen(Some(&taken.local_addr().unwrap().to_string())).await.unwrap_err();
    assert!(format!("{error:#}").contains("--diagnostics-address"), "{error:#}");
    // Whether or not the default port is taken.
    listen(None).await.unwrap();
}
