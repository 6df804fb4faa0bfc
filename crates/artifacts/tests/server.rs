//! Tests of a folder of software and its server, with the requests of a machine and of an attacker.

#![cfg(test)]

use capstan_artifacts::server::{CONNECTIONS, ConnectionLimits, Options, Server};
use capstan_artifacts::{AGENT, Addition, Arch, Folder, FolderError, Software, VERSION};
use capstan_plan::Digest;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const DEADLINE: Duration = Duration::from_secs(30);

struct World {
    place: TempDir,
    folder: Folder,
    server: Server,
}

impl World {
    async fn start() -> Self {
        Self::limited(CONNECTIONS).await
    }

    async fn limited(connections: ConnectionLimits) -> Self {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path().join("artifacts"));
        let options = Options { connections, ..options(&place) };
        let server = Server::start(folder.clone(), &options).await.unwrap();
        Self { place, folder, server }
    }

    fn address(&self) -> SocketAddr {
        self.server.served().url.strip_prefix("https://").unwrap().parse().unwrap()
    }

    async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.server.served().ca.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address()).await?;
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Head and body of the answer to a request as it stands.
    async fn ask(&self, request: &str) -> (String, Vec<u8>) {
        let mut stream = self.connect().await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let body = answer.split_off(end);
        (String::from_utf8(answer).unwrap().to_lowercase(), body)
    }

    async fn get(&self, method: &str, path: &str, headers: &str) -> (String, Vec<u8>) {
        self.ask(&format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n")).await
    }

    fn add(&self, version: &str, content: &[u8]) -> Digest {
        let from = self.place.path().join("from");
        std::fs::write(&from, content).unwrap();
        self.folder.add_file(k3s(version), &from, None).unwrap().sha256
    }
}

fn options(place: &TempDir) -> Options {
    let authority = place.path().join("pki");
    Options { listen: ([127, 0, 0, 1], 0).into(), url: None, host: None, authority, connections: CONNECTIONS }
}

fn k3s(version: &str) -> Addition {
    Addition { name: "k3s".to_owned(), version: version.to_owned(), arch: Arch::Amd64 }
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_get_bytes_by_digest_and_nothing_else() {
    let world = World::start().await;
    // Larger than one chunk, and added while the server runs.
    let content: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let digest = world.add("v1", &content);
    let catalog = world.server.software().catalog();
    let found = catalog.find("k3s", "v1", Arch::Amd64).unwrap();
    assert_eq!((found.sha256, found.size), (digest, 1_000_000));
    let path = found.sources[0].url.strip_prefix(&world.server.served().url).unwrap();
    assert_eq!(found.sources[0].ca.as_deref(), Some(world.server.served().ca.as_str()));

    let (head, body) = world.get("GET", path, "").await;
    assert!(head.starts_with("http/1.1 200") && head.contains("content-length: 1000000"), "{head}");
    assert!(head.contains("accept-ranges: bytes") && head.contains(&format!("etag: \"{digest}\"")), "{head}");
    assert!(body == content);
    let (head, body) = world.get("HEAD", path, "").await;
    assert!(head.starts_with("http/1.1 200") && head.contains("content-length: 1000000"), "{head}");
    assert!(body.is_empty());

    // Continued where it stopped.
    let (head, body) = world.get("GET", path, "range: bytes=300000-\r\n").await;
    assert!(head.starts_with("http/1.1 206"), "{head}");
    assert!(head.contains("content-range: bytes 300000-999999/1000000"), "{head}");
    assert!(body == content[300_000..]);
    let (head, body) = world.get("GET", path, "range: bytes=10-19\r\nif-range: \"other\"\r\n").await;
    assert!(head.starts_with("http/1.1 200") && body == content, "{head}");
    let (head, _) = world.get("GET", path, "range: bytes=1000000-\r\n").await;
    assert!(head.starts_with("http/1.1 416") && head.contains("content-range: bytes */1000000"), "{head}");

    for path in [
        "/",
        "/artifacts",
        "/artifacts/sha256/",
        "/artifacts/sha256/../../index.yaml",
        "/artifacts/sha256/..%2f..%2findex.yaml",
        "/artifacts/index.yaml",
        &format!("{path}/"),
        &path.to_uppercase(),
        &format!("/artifacts/sha256/{}", Digest::of(b"other")),
    ] {
        let (head, body) = world.get("GET", path, "").await;
        assert!(head.starts_with("http/1.1 404") && body.is_empty(), "{path}: {head}");
    }
    let (head, _) = world.get("DELETE", path, "").await;
    assert!(head.starts_with("http/1.1 405"), "{head}");
    let (head, _) = world.ask(&format!("GET {path} HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20))).await;
    assert!(head.starts_with("http/1.1 431"), "{head}");

    // A file that is not what it was is not handed out.
    std::fs::write(world.folder.file_path(&format!("sha256/{digest}")), b"short").unwrap();
    let (head, _) = world.get("GET", path, "").await;
    assert!(head.starts_with("http/1.1 404"), "{head}");
}

/// Whether the server closes a connection that sends nothing, earlier than one that waits for its next request.
async fn is_closed(stream: &mut TlsStream<TcpStream>) -> bool {
    matches!(timeout(Duration::from_secs(7), stream.read(&mut [0])).await, Ok(Ok(0) | Err(_)))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_has_only_so_many_connections() {
    let world = World::limited(ConnectionLimits { per_address: 3, ..CONNECTIONS }).await;
    let digest = world.add("v1", b"content");
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(world.connect().await.unwrap());
    }
    assert!(timeout(DEADLINE, world.connect()).await.unwrap().is_err(), "a fourth one is closed");
    drop(open);
    let path = format!("/artifacts/sha256/{digest}");
    let again = async {
        while world.connect().await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        world.get("GET", &path, "").await
    };
    let (head, body) = timeout(DEADLINE, again).await.unwrap();
    assert!(head.starts_with("http/1.1 200") && body == b"content", "{head}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_without_a_valid_request_are_closed_and_others_stay() {
    let world = World::limited(ConnectionLimits { unaccepted: Duration::from_secs(2), ..CONNECTIONS }).await;
    let digest = world.add("v1", b"content");
    let (mut silent, mut useless, mut known) =
        (world.connect().await.unwrap(), world.connect().await.unwrap(), world.connect().await.unwrap());
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    let path = format!("/artifacts/sha256/{digest}");
    let mut buffer = [0; 4096];
    for (stream, path, expected) in [(&mut useless, "/", "HTTP/1.1 404"), (&mut known, &path, "HTTP/1.1 200")]
    {
        stream.write_all(request(path).as_bytes()).await.unwrap();
        let length = stream.read(&mut buffer).await.unwrap();
        assert!(buffer[..length].starts_with(expected.as_bytes()));
    }
    assert!(is_closed(&mut silent).await && is_closed(&mut useless).await);
    known.write_all(request(&path).as_bytes()).await.unwrap();
    let mut received = Vec::new();
    while !received.windows(7).any(|seven| seven == b"content") {
        assert!(timeout(DEADLINE, known.read_buf(&mut received)).await.unwrap().unwrap() > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_has_only_so_many_requests() {
    let world = World::start().await;
    let mut stream = world.connect().await.unwrap();
    let mut limited = String::new();
    for _ in 0..2000 {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            assert!(stream.read_buf(&mut head).await.unwrap() > 0);
        }
        limited = String::from_utf8(head).unwrap().to_lowercase();
        if limited.starts_with("http/1.1 429") {
            break;
        }
    }
    assert!(limited.starts_with("http/1.1 429") && limited.contains("retry-after: 1"), "{limited}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authority_lasts_and_the_address_is_what_machines_see() {
    let world = World::start().await;
    let again = Options { url: Some("https://plane.example:6441/".to_owned()), ..options(&world.place) };
    let again = Server::start(world.folder.clone(), &again).await.unwrap();
    assert_eq!(again.served().ca, world.server.served().ca);
    assert_eq!(again.served().url, "https://plane.example:6441");
    let named = Options { host: Some("fd00::1".to_owned()), ..options(&world.place) };
    let named = Server::start(world.folder.clone(), &named).await.unwrap();
    assert!(named.served().url.starts_with("https://[fd00::1]:"), "{}", named.served().url);
    let wrong = Options { url: Some("http://plane".to_owned()), ..options(&world.place) };
    let error = Server::start(world.folder.clone(), &wrong).await.unwrap_err().to_string();
    assert!(error.contains("https://HOST:PORT"), "{error}");
    let mode = std::fs::metadata(world.place.path().join("pki/ca.key")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_says_what_is_wrong_with_it() {
    let world = World::start().await;
    let first = world.add("v1", b"first");
    let second = world.add("v2", b"second");
    assert_eq!(world.folder.verify().unwrap(), []);
    let path = |digest: &Digest| world.folder.file_path(&format!("sha256/{digest}"));
    std::fs::write(path(&first), b"frist").unwrap();
    std::fs::write(path(&second), b"longer than it was").unwrap();
    let faults = world.folder.verify().unwrap();
    assert_eq!(faults.len(), 2);
    assert!(faults[0].title == "k3s v1 amd64" && faults[0].problem.contains("digest"), "{faults:?}");
    assert!(faults[1].problem.contains("18 bytes instead of 6"), "{faults:?}");

    // Another file in its place: the one before goes.
    let third = world.add("v1", b"third");
    assert!(!path(&first).exists() && path(&third).exists());
    std::fs::remove_file(path(&third)).unwrap();
    assert!(world.folder.verify().unwrap()[0].problem.contains("cannot read"));

    let error = world.folder.add_file(k3s("no version"), &path(&second), None).unwrap_err();
    assert!(
        matches!(error, FolderError::Entry { .. }) && error.to_string().starts_with("k3s no version"),
        "{error}"
    );
    let error = world.folder.add_file(k3s("v3"), &world.place.path().join("nowhere"), None).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    let other = Digest::of(b"other");
    let error = world.folder.add_file(k3s("v3"), &path(&second), Some(&other)).unwrap_err().to_string();
    assert!(error.contains(&format!("not {other}")), "{error}");
    let left: Vec<_> = std::fs::read_dir(world.folder.path().join("sha256")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");

    // An index that cannot be read changes nothing, until it can.
    let before = world.server.software().catalog();
    std::fs::write(world.folder.index_path(), "artifacts: 7").unwrap();
    assert_eq!(world.server.software().catalog(), before);
    let error = world.folder.verify().unwrap_err().to_string();
    assert!(error.contains("index.yaml: ") && !error.contains('\n'), "{error}");
    std::fs::remove_file(world.folder.index_path()).unwrap();
    assert_eq!(world.server.software().catalog().versions("k3s").count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_elsewhere_needs_no_server() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path());
    let url = "https://far.example/k3s".to_owned();
    folder.add_url(k3s("v1"), url.clone(), Digest::of(b"far"), 3).unwrap();
    let error = folder.add_url(k3s("v1"), "http://far".to_owned(), Digest::of(b"far"), 3).unwrap_err();
    assert!(error.to_string().contains("https://"), "{error}");
    let catalog = Software::in_folder(folder.clone(), None).catalog();
    let found = catalog.find("k3s", "v1", Arch::Amd64).unwrap();
    assert_eq!((found.sources[0].url.as_str(), &found.sources[0].ca), (url.as_str(), &None));
    // The agent, and only once.
    let this = std::env::current_exe().unwrap();
    let agent = folder.add_agent(&this).unwrap();
    assert_eq!((agent.name.as_str(), agent.version.as_str()), (AGENT, VERSION));
    let stamp = || std::fs::metadata(folder.index_path()).unwrap().modified().unwrap();
    let before = stamp();
    assert_eq!(folder.add_agent(&this).unwrap(), agent);
    assert_eq!(stamp(), before);
    let error = folder.add_agent(&folder.index_path()).unwrap_err().to_string();
    assert!(error.contains("is not a program"), "{error}");
}
