//! What servers of TCP connections share: accepting, a limit of connections, TLS handshakes, write timeouts.
//!
//! Protocols above TLS are not in here.

mod accept;
mod handshake;
mod write_timeout;

pub use accept::{accept, serve};
pub use handshake::handshake;
pub use write_timeout::WriteTimeout;
