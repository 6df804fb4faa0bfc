//! Requests of probes: GET over plain HTTP and over TLS, which return only the status code, and connections to a port.
//!
//! Of a response only its first line is read, and connections are closed at once.

use bytes::Bytes;
use capstan_plan::{HttpUrl, HttpsUrl, TcpAddress};
use http_body_util::Full;
use hyper::Request;
use hyper::header::{HOST, USER_AGENT};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::https::{Connection, Trust};
use crate::machine::MachineError;
use crate::status_line::status;

/// A larger file is not read as a certificate.
pub(super) const LARGEST_PEM: u64 = 1024 * 1024;

/// Longest status line that is accepted.
const LONGEST_LINE: usize = 1024;

pub(super) async fn get(url: &HttpUrl, timeout: Duration) -> Result<u16, MachineError> {
    in_time(timeout, ask(url)).await.map_err(|error| MachineError::io(format!("ask {url}"), error))
}

/// The same over TLS. `ca`, the certificate and the key are PEM.
pub(super) async fn get_https(
    url: &HttpsUrl,
    ca: Option<Vec<u8>>,
    client: Option<(Vec<u8>, Vec<u8>)>,
    timeout: Duration,
) -> Result<u16, MachineError> {
    let asked = async {
        // The trust store of a machine is large.
        let trust = tokio::task::spawn_blocking(move || Trust::with(ca.as_deref(), client));
        let trust = trust.await.map_err(io::Error::other)?.map_err(io::Error::other)?;
        let mut connection = Connection::open(&trust, url.host(), url.port()).await?;
        let request = Request::get(url.path())
            .header(HOST, url.authority())
            .header(USER_AGENT, "capstan-agent")
            .body(Full::new(Bytes::new()))
            .map_err(io::Error::other)?;
        Ok(connection.send(request).await?.status().as_u16())
    };
    in_time(timeout, asked).await.map_err(|error| MachineError::io(format!("ask {url}"), error))
}

pub(super) async fn connect(address: &TcpAddress, timeout: Duration) -> Result<(), MachineError> {
    let connected = in_time(timeout, TcpStream::connect((address.host(), address.port()))).await;
    connected.map(drop).map_err(|error| MachineError::io(format!("connect to {address}"), error))
}

async fn in_time<T>(timeout: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, "there was no answer in time");
    tokio::time::timeout(timeout, work).await.unwrap_or_else(|_| Err(late()))
}

async fn ask(url: &HttpUrl) -> io::Result<u16> {
    let mut stream = TcpStream::connect((url.host(), url.port())).await?;
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: capstan-agent\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        url.path(),
        url.authority()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut line = Vec::new();
    while !line.contains(&b'\n') && line.len() < LONGEST_LINE {
        let mut buffer = [0; 256];
        match stream.read(&mut buffer).await? {
            0 => break,
            length => line.extend_from_slice(&buffer[..length]),
        }
    }
    status(&line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP"))
}
