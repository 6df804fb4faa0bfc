//! Durable storage of the journal, its archive, the accepted plan, the last runs of periodic commands, and the previous content of
//! files.
//!
//! It is a trait, so that tests can simulate a crash at every write. A store does not interpret its content.

mod disk;

pub use disk::DiskStore;
pub(crate) use disk::put;

use capstan_plan::Digest;
use std::collections::BTreeSet;
use std::future::Future;
use std::io;

/// Durable storage that survives crashes.
pub trait Store: Send + Sync {
    /// The content of the journal: empty if there is none. After a crash the last bytes may be missing or wrong;
    /// everything that `append` or `replace` has returned for is complete.
    fn load(&mut self) -> impl Future<Output = io::Result<Vec<u8>>> + Send;

    /// Adds to the journal. Durable when it returns.
    fn append(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Replaces the journal atomically. Durable when it returns.
    fn replace(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Keeps the content of a file that is about to be replaced. Durable when it returns.
    fn keep(&mut self, digest: Digest, content: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Content that was kept.
    fn kept(&mut self, digest: Digest) -> impl Future<Output = io::Result<Vec<u8>>> + Send;

    /// Stores the accepted plan, as received, and replaces the previous one atomically. Durable when it returns.
    fn put_plan(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// The accepted plan, if there is one.
    fn plan(&mut self) -> impl Future<Output = io::Result<Option<Vec<u8>>>> + Send;

    /// Removes the accepted plan. Durable when it returns.
    fn forget_plan(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    /// The archive of earlier attempts, if there is one.
    fn archive(&mut self) -> impl Future<Output = io::Result<Option<Vec<u8>>>> + Send;

    /// Replaces the archive atomically.
    fn put_archive(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Removes the archive. Durable when it returns.
    fn forget_archive(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    /// The last runs of periodic commands, if there are any.
    fn runs(&mut self) -> impl Future<Output = io::Result<Option<Vec<u8>>>> + Send;

    /// Replaces the last runs of periodic commands atomically. Durable when it returns.
    fn put_runs(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Removes the last runs of periodic commands. Durable when it returns.
    fn forget_runs(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    /// Removes all kept content except this.
    fn keep_only(&mut self, digests: &BTreeSet<Digest>) -> impl Future<Output = io::Result<()>> + Send;
}
