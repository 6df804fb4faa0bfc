//! Where the software that runs on machines comes from.
//!
//! Software is found by name, version and architecture ([`Catalog`]), and known by its digest: where it is fetched from
//! never matters to what is run. A folder of files beside the management plane ([`Folder`], with `server::Server` in
//! front of it) and an address on the internet are two sources of the same thing, so that a machine without a way out
//! is the ordinary case.
//!
//! What must not live here: which software a machine needs. That is a distribution's knowledge. The server is behind
//! the feature `server`, because whoever only looks things up needs none.

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

/// Name of the agent among the software. Its version is Capstan's own: [`VERSION`].
pub const AGENT: &str = "capstan-agent";

/// Version of this Capstan.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
