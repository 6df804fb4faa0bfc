//! The third-party programs that Capstan's tests run against: which, in which version, how they are
//! built, and where they are kept.
//!
//! The Go module files under `tools/go` are the only place where a version is written. From them each
//! [`Program`] is compiled once, run to see that it says its version, and put into a cache folder outside
//! the tree; [`UpstreamCrds`] are copied there from the same modules. A build that was interrupted is
//! taken up again by the next one, and a program that is in the cache is whole.
//!
//! For real machines there are, beside the programs, a root file system to boot ([`machine_rootfs`]) and k3s in the
//! form its project releases it: one executable, and an archive of images ([`k3s_bundle`]).
//!
//! Nothing in here starts a program for a test (that is `capstan-testkit`), nothing in the product depends
//! on it, and it has hardly any dependencies, because it is what a new machine compiles first.

mod artifact;
mod build;
mod cache;
mod check;
mod crds;
mod follow;
mod go;
mod images;
mod k3s;
mod pins;
mod program;
mod progress;
mod rootfs;
mod status;

pub use artifact::Artifact;
pub use build::{build, build_all, build_machines};
pub use cache::Cache;
pub use crds::{CrdSet, UpstreamCrds};
pub use images::{PAUSE_IMAGE, TEST_IMAGE};
pub use k3s::{K3S_VERSIONS, K3sBundle, k3s_bundle};
pub use program::Program;
pub use progress::{Progress, to_stderr};
pub use rootfs::machine_rootfs;
pub use status::{Status, list, locate};
