//! The software that machines download and run.
//!
//! Software is looked up by name, version and architecture ([`Catalog`]), and identified by its digest, so that the
//! source of a file does not matter. A folder of files beside the management plane ([`Folder`], served by
//! `server::Server`) and a URL on the internet are two sources of the same file. Machines without internet access are
//! the normal case.
//!
//! This crate must not decide which software a machine needs; the distribution decides that. The server is behind the
//! feature `server`, because crates that only look up software do not need it.

mod arch;
mod catalog;
mod folder;
mod index;
#[cfg(feature = "server")]
pub mod server;
mod software;

pub use arch::{Arch, ArchError};
pub use catalog::{ArtifactRef, Catalog, Source};
pub use folder::{Addition, Fault, Folder, FolderError, INDEX};
pub use index::{Entry, EntryError, Index, IndexError};
pub use software::{Served, Software};

/// Name of the agent in the catalog. Its version is Capstan's own: [`VERSION`].
pub const AGENT: &str = "capstan-agent";

/// Version of this Capstan.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
