//! GET over plain HTTP, which returns only the status code, for probes.

use capstan_plan::HttpUrl;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::machine::MachineError;

/// Longest status line that is accepted.
const LONGEST_LINE: usize = 1024;

pub(super) async fn get(url: &HttpUrl, timeout: Duration) -> Result<u16, MachineError> {
    let answer = tokio::time::timeout(timeout, ask(url)).await;
    answer
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "there was no answer in time")))
        .map_err(|error| MachineError::io(format!("ask {url}"), error))
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

pub(super) fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.parse().ok().filter(|status| (100..=599).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines_are_read() {
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\nX: y\r\n", Some(200)),
            ("HTTP/1.0 503\r\n", Some(503)),
            ("HTTP/1.1 200", Some(200)),
            ("HTTP/1.1 abc\r\n", None),
            ("HTTP/1.1 20\r\n", None),
            ("SSH-2.0-x\r\n", None),
            ("", None),
        ] {
            assert_eq!(status(answer.as_bytes()), expected, "{answer:?}");
        }
    }
}
