//! The third-party programs that Capstan's tests run against: which, in which version, how they are
//! built, and where they are kept.
//!
//! The Go module files under `tools/go` are the only place where a version is written. From them each
//! [`Program`] is compiled once, run to see that it says its version, and put into a cache folder outside
//! the tree; [`UpstreamCrds`] are copied there from the same modules. A build that was interrupted is
//! taken up again by the next one, and a program that is in the cache is whole.
//!
//! Nothing in here starts a program for a test (that is `capstan-testkit`), nothing in the product depends
//! on it, and it has hardly any dependencies, because it is what a new machine compiles first.

mod build;
mod cache;
mod check;
mod crds;
mod go;
mod pins;
mod program;
mod progress;
mod status;

pub use build::{build, build_all};
pub use cache::Cache;
pub use crds::{CrdSet, UpstreamCrds};
pub use program::Program;
pub use progress::{Progress, to_stderr};
pub use status::{Status, list, locate};
