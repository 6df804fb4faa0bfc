//! `capstan up` exports traces of its reconciles to an OpenTelemetry collector.

#![cfg(test)]
#![cfg(feature = "traces")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(120);

/// A process that is killed when the value is dropped.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Reads requests of one connection, and sends each path with its body.
fn receive(stream: TcpStream, exports: &mpsc::Sender<(String, Vec<u8>)>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if reader.read_until(b'\n', &mut head)? == 0 {
                return Ok(());
            }
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        let mut body = vec![0; length.unwrap_or_default()];
        reader.read_exact(&mut body)?;
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        // Only the test that ended for another reason does not receive.
        _ = exports.send((path, body));
        reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
    }
}

fn collector() -> (u16, mpsc::Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, exports) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let sender = sender.clone();
            std::thread::spawn(move || receive(stream, &sender));
        }
    });
    (port, exports)
}

fn up(folder: &std::path::Path, endpoint: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.env_clear().env("OTEL_BSP_SCHEDULE_DELAY", "100").stdin(Stdio::null()).stderr(Stdio::piped());
    command.args(["up", "--listen", "127.0.0.1:0", "--hooks-listen", "127.0.0.1:0"]);
    command
        .args(["--artifacts-listen", "127.0.0.1:0", "--traces-endpoint", endpoint, "--data-dir"])
        .arg(folder);
    command
}

#[test]
fn a_reconcile_is_a_trace_with_its_requests() {
    let (port, exports) = collector();
    let folder = tempfile::tempdir().unwrap();
    let mut plane = Started(up(folder.path(), &format!("http://127.0.0.1:{port}")).spawn().unwrap());
    let stderr = plane.0.stderr.take().unwrap();
    std::thread::spawn(move || BufReader::new(stderr).lines().map_while(Result::ok).for_each(drop));
    // Text is in protobuf as it is. The ExtensionConfig is Capstan's own: it exists on every plane.
    let wanted =
        ["capstan", "reconcile", "extensionconfig", "http.request.method", "/apis/runtime.cluster.x-k8s.io"];
    let mut missing: Vec<&str> = wanted.to_vec();
    while !missing.is_empty() {
        let export = exports.recv_timeout(DEADLINE);
        let (path, body) = export.unwrap_or_else(|_| panic!("no export has {missing:?}"));
        assert_eq!(path, "/v1/traces");
        missing.retain(|text| !body.windows(text.len()).any(|window| window == text.as_bytes()));
    }
}

#[test]
fn a_collector_elsewhere_without_tls_is_refused_with_the_flag() {
    let folder = tempfile::tempdir().unwrap();
    let ended = up(folder.path(), "http://192.0.2.1:4318").output().unwrap();
    let complaint = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success());
    assert!(complaint.contains("--traces-endpoint") && complaint.contains("https://"), "{complaint}");
}
