//! Hosts that are reached over SSH, or that dial out.
//!
//! This crate connects to hosts ([`access`], [`transport`]), or instructs them through their HostRegistration
//! ([`RegisteredDriver`]). It reads their facts, executes bootstrap data on them, undoes that on a reset, and
//! [`check`]s what would prevent a host from working. Small `sh` scripts run on the host; decisions are pure functions of
//! this crate.
//!
//! It must not decide which host a machine gets (the infrastructure provider does), and must not know the purpose of
//! bootstrap data.
//!
//! Long operations run on the host independently of the connection, and keep their state under [`CLAIMS`]: a lost
//! connection or a restart of the manager does not affect them.

pub mod access;
pub mod check;
mod cloudconfig;
mod driver;
mod error;
mod facts;
mod follow;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
mod inventory;
mod job;
mod redact;
mod registered;
mod reset;
mod script;
mod settings;
pub mod transport;
mod watch;
mod work;

pub use driver::SshDriver;
pub use error::SshError;
pub use inventory::{Inventory, PlaneInventory, SecretData};
pub use registered::RegisteredDriver;
pub use settings::Settings;

/// Folder on a host with the records of each claim.
pub const CLAIMS: &str = "/var/lib/capstan-claims";
