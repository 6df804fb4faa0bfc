//! Timeouts and limits of connections, and paths on hosts.

use std::time::Duration;

/// Timeouts and limits of connections, and paths on hosts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Timeout for the TCP connection, for the SSH handshake, and for authentication, each.
    pub connect: Duration,
    /// Timeout for a script.
    pub command: Duration,
    /// Keepalive interval. After three without a response the connection is closed.
    pub keepalive: Duration,
    /// An idle connection is closed after this time.
    pub idle: Duration,
    /// Concurrent scripts over one connection: fewer than the ten that OpenSSH's server allows.
    pub sessions: usize,
    /// Concurrent handshakes, which need processor time.
    pub handshakes: usize,
    /// Number of connections that are kept. More are opened if needed, and closed as soon as they are idle.
    pub connections: usize,
    /// Limit of a script's output, in bytes.
    pub output: usize,
    /// Prefix of every path on the host: empty, except in tests.
    pub root: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            command: Duration::from_secs(60),
            keepalive: Duration::from_secs(15),
            idle: Duration::from_secs(90),
            sessions: 8,
            handshakes: 16,
            connections: 512,
            output: 1 << 20,
            root: String::new(),
        }
    }
}

impl Settings {
    /// Whether the host's own files are meant, so that it takes root to change them.
    pub(crate) fn needs_root(&self) -> bool {
        self.root.is_empty()
    }
}
