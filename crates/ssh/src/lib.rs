//! Hosts that are reached over SSH.
//!
//! What lives here: getting in ([`access`], [`transport`]), asking a host who it is, carrying bootstrap data out on it
//! and undoing that again, and [`check`]ing what would stop a host from working. What happens on a host is done by
//! small scripts for `sh`; what is thought about it is pure and stays here.
//!
//! What must not: deciding which host a machine gets (that is the infrastructure provider's), and knowing what
//! bootstrap data is for.
//!
//! Work that takes time runs on the host by itself, and keeps what it did under [`CLAIMS`]: a lost connection or a
//! manager that dies changes nothing.

pub mod access;
pub mod check;
mod cloudconfig;
mod driver;
mod error;
mod facts;
mod follow;
mod inventory;
mod job;
mod redact;
mod reset;
mod script;
mod settings;
pub mod transport;
mod watch;
mod work;

pub use driver::SshDriver;
pub use error::SshError;
pub use inventory::{Inventory, PlaneInventory, SecretData};
pub use settings::Settings;

/// Folder on a host with the records of each claim.
pub const CLAIMS: &str = "/var/lib/capstan-claims";
