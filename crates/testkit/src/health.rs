//! Health checks over plain HTTP on loopback.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An answer takes milliseconds; a program that is about to end may never give one.
const DEADLINE: Duration = Duration::from_secs(5);

/// Succeeds if `GET path` is answered with 200.
pub(crate) async fn ok(port: u16, path: &str) -> Result<()> {
    let answer = tokio::time::timeout(DEADLINE, get(port, path)).await.context("no answer")??;
    let status = answer.lines().next().unwrap_or_default();
    ensure!(status.split(' ').nth(1) == Some("200"), "{path} answers {:?}", answer.trim());
    Ok(())
}

async fn get(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.context("nothing listens")?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.context("cannot ask")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.context("cannot read the answer")?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Succeeds if something listens on `port`.
pub(crate) async fn listens(port: u16) -> Result<()> {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.context("nothing listens")?;
    Ok(())
}
