//! Where the journal lies, and what was on the machine before.
//!
//! A trait, so that a crash can be played at every write. A store does not know what it keeps.

mod disk;

pub use disk::DiskStore;
pub(crate) use disk::put;

use capstan_plan::Digest;
use std::collections::BTreeSet;
use std::future::Future;
use std::io;

/// Durable storage that survives crashes.
pub trait Store: Send + Sync {
    /// The journal as it lies there: empty if there was none. After a crash the last bytes may be missing or
    /// wrong; everything that an `append` or `replace` has returned for is there.
    fn load(&mut self) -> impl Future<Output = io::Result<Vec<u8>>> + Send;

    /// Adds to the journal. Durable when it returns.
    fn append(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Writes the journal anew. Whole and at once, durable when it returns.
    fn replace(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Keeps the content of a file that is about to be replaced. Durable when it returns.
    fn keep(&mut self, digest: Digest, content: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Content that was kept.
    fn kept(&mut self, digest: Digest) -> impl Future<Output = io::Result<Vec<u8>>> + Send;

    /// Keeps the accepted plan, as it came, in place of the one before. Whole and at once, durable when it returns.
    fn put_plan(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// The accepted plan, if there is one.
    fn plan(&mut self) -> impl Future<Output = io::Result<Option<Vec<u8>>>> + Send;

    /// Forgets the accepted plan. Durable when it returns.
    fn forget_plan(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    /// Forgets all kept content but this.
    fn keep_only(&mut self, digests: &BTreeSet<Digest>) -> impl Future<Output = io::Result<()>> + Send;
}
