//! What servers of TCP connections share: accepting, limits of connections and rates for each address, TLS handshakes,
//! serving certificates, write timeouts.
//!
//! Protocols above TLS are not in here.

mod accept;
mod address_rate;
mod connections;
mod handshake;
mod serving;
mod write_timeout;

pub use accept::{accept, serve, serve_limited};
pub use address_rate::{AddressRate, Rate};
pub use connections::{Connection, ConnectionLimits, Connections};
pub use handshake::handshake;
pub use serving::Serving;
pub use write_timeout::WriteTimeout;
