//! The durable, revisioned store: every object, and a window of recent changes.
//!
//! One writer thread ([`writer`]) owns the file, checks the preconditions of each write, assigns revisions, and commits
//! in groups with one fsync. Then it publishes to memory ([`index`]), from which every read and every watch is served,
//! and then it acknowledges. [`log`] is the content of the file, [`file`] opens it, [`seal`] has its checksums,
//! [`backup`] copies and restores it.
//!
//! This crate does not interpret objects: no kinds, no selectors, no HTTP.

pub mod backup;
#[cfg(test)]
mod fault_tests;
mod file;
mod format;
mod index;
mod key;
mod log;
pub mod object;
mod seal;
mod stored;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};

use capstan_text::health::Health;
use serde_json::Value;
use tokio::sync::{oneshot, watch};

pub use index::{Batch, Keys, Listing};
pub use key::{GroupResource, Key};
pub use stored::Stored;

use crate::object::MOST_BYTES;

/// The file with the keys of tokens in the folder of a store. Who writes it knows what is in it.
pub const TOKEN_KEYS: &str = "service-account.key";
use index::State;

/// Where the store keeps its file.
#[derive(Clone, Debug)]
pub enum Storage {
    /// A folder that only this server uses. It is created if it does not exist.
    Folder(PathBuf),
    /// In memory, lost with the process: for simulated clusters and tests.
    Memory,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object was created.
    Created,
    /// The object was changed.
    Updated,
    /// The object was deleted.
    Deleted,
}

/// One committed write.
#[derive(Debug)]
pub struct Event {
    /// The revision of the write: unique and increasing.
    pub revision: u64,
    /// What happened.
    pub change: Change,
    /// The object after the write; of a deletion, its last state under the deletion's revision.
    pub object: Arc<Stored>,
    /// The object before the write.
    pub previous: Option<Arc<Stored>>,
}

impl Event {
    /// What it keeps alive: the state before it, and of a deletion the last one.
    fn weight(&self) -> usize {
        let before = self.previous.as_ref().map_or(0, |previous| previous.json.len());
        let after = if self.change == Change::Deleted { self.object.json.len() } else { 0 };
        before + after
    }
}

/// What a write expects to find under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The object does not exist.
    Absent,
    /// The object is at this revision.
    Revision(u64),
}

/// What a write does.
#[derive(Debug)]
pub enum Action {
    /// Stores this object; the writer stamps its resourceVersion.
    Put(Value),
    /// Removes the object.
    Delete,
}

/// One write, on condition.
#[derive(Debug)]
pub struct Write {
    /// Which object.
    pub key: Key,
    /// What must be there now.
    pub expect: Expect,
    /// What to do.
    pub action: Action,
    /// Other objects that must still be at these revisions: a namespace that must not have begun to
    /// terminate, a CRD that must not have gone.
    pub guards: Vec<(Key, u64)>,
}

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object, or one of the guards, is not at the expected revision: read again and retry.
    #[error("the object has been modified")]
    Conflict,
    /// The object is larger than a client could send back.
    #[error("the object is larger than {MOST_BYTES} bytes")]
    TooLarge,
    /// The file could not be written.
    #[error("cannot commit")]
    Commit(#[source] Arc<OpenError>),
    /// The store is shutting down.
    #[error("the store is closed")]
    Closed,
}

/// Why a store cannot be opened, or its file not be read or written. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder or a file in it cannot be created, read or written.
    #[error("cannot create, read or protect {}", .0.display())]
    Folder(PathBuf, #[source] std::io::Error),
    /// Another process has the store open.
    #[error("{} is in use by another process: stop that one first, or use another folder", .0.display())]
    InUse(PathBuf),
    /// The file is truncated, overwritten, or not a store.
    #[error(
        "{} is damaged or not a store, and has been left as it is: bring back a backup, or move the file away to \
         begin with nothing", .0.display()
    )]
    Damaged(PathBuf),
    /// A newer version of the program wrote the store.
    #[error(
        "{} is in format {found} and this program knows up to {known}; it has been left as it is: use the newer \
         program that wrote it", .path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest that can be read.
        known: u64,
    },
    /// The disk is full.
    #[error("the disk is full: nothing can be written until there is room again")]
    Full,
    /// Another error of redb.
    #[error("cannot use the store's file")]
    File(#[source] redb::Error),
    /// An earlier error has closed the file.
    #[error("the store's file is closed after an error: start again")]
    Closed,
    /// A row cannot be decoded.
    #[error("cannot read the row {0:?} of the store: bring back a backup")]
    Row(String),
    /// The writer thread cannot be started.
    #[error("cannot start the writer")]
    Thread(#[source] std::io::Error),
}

impl From<redb::Error> for OpenError {
    fn from(error: redb::Error) -> Self {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        match error {
            redb::Error::Io(io) if matches!(io.kind(), StorageFull | QuotaExceeded) => Self::Full,
            error => Self::File(error),
        }
    }
}

/// Called on the writer thread with what has been committed, before anybody else can see it.
pub type Observer = Box<dyn Fn(&[Arc<Event>]) + Send>;

type Reply = oneshot::Sender<Result<Arc<Stored>, WriteError>>;

/// What the writer is asked to do.
enum Job {
    /// A write.
    Write(Write, Reply),
    /// A write that changes nothing, to find out whether the disk has room again.
    Probe,
}

/// Why the last write failed: shared by the writer, which sets it, and readers of [`Store::health`].
type LastFailure = Arc<Mutex<Option<Arc<OpenError>>>>;

/// The store. Cheap to share; reads never wait for the disk.
pub struct Store {
    state: Arc<RwLock<State>>,
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
    last_failure: LastFailure,
    /// Whether the writer has a probe in its queue.
    has_probe: Arc<AtomicBool>,
}

impl Store {
    /// Opens or creates the store; `history` is how many events watches can be replayed from.
    ///
    /// # Errors
    /// If the file cannot be opened, locked or read.
    pub fn open(storage: &Storage, history: usize) -> Result<Opened, OpenError> {
        let (log, state) = log::Log::open(storage, history)?;
        Ok(Opened { state: Arc::new(RwLock::new(state)), log })
    }

    /// Carries out one write; returns once it is on disk and visible to readers.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write(&self, write: Write) -> Result<Arc<Stored>, WriteError> {
        let (reply, answer) = oneshot::channel();
        {
            let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let sent = jobs.as_ref().is_some_and(|jobs| jobs.send(Job::Write(write, reply)).is_ok());
            if !sent {
                return Err(WriteError::Closed);
            }
        }
        answer.await.unwrap_or(Err(WriteError::Closed))
    }

    /// The object under this key, if there is one.
    pub fn get(&self, key: &Key) -> Option<Arc<Stored>> {
        self.read().get(key)
    }

    /// The last revision that readers can see.
    pub fn revision(&self) -> u64 {
        self.read().revision()
    }

    /// All objects of a resource, or those of one namespace, in order of namespace and name.
    pub fn list(&self, resource: &GroupResource, namespace: Option<&str>) -> Listing {
        self.read().list(resource, namespace)
    }

    /// How many objects of a resource are in a namespace. Kept, not counted.
    pub fn count(&self, resource: &GroupResource, namespace: &str) -> usize {
        self.read().count(resource, namespace)
    }

    /// Keeps an index of a resource from now on, for [`Self::list_by`].
    pub fn index(&self, resource: &GroupResource, keys: Keys) {
        self.state.write().unwrap_or_else(PoisonError::into_inner).index(resource, keys);
    }

    /// Objects of a resource with one of these keys of its index, in order of namespace and name.
    pub fn list_by(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        keys: &[String],
    ) -> Vec<Arc<Stored>> {
        self.read().list_by(resource, namespace, keys)
    }

    /// The same list as it was at an earlier revision; nothing if that is beyond the window.
    pub fn list_at(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        revision: u64,
    ) -> Option<Listing> {
        self.read().list_at(resource, namespace, revision)
    }

    /// Every object there is, of any kind.
    pub fn everything(&self) -> Listing {
        self.read().everything()
    }

    /// Every object in a namespace, of any kind.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<Stored>> {
        self.read().in_namespace(namespace)
    }

    /// What happened to a resource (or, with none, to anything) after a revision, in order; nothing if
    /// that is beyond the window.
    pub fn events_after(
        &self,
        resource: Option<&GroupResource>,
        revision: u64,
        limit: usize,
    ) -> Option<Batch> {
        self.read().events_after(resource, revision, limit)
    }

    /// Changes whenever something happened to the resource (or, with none, to anything).
    pub fn subscribe(&self, resource: Option<&GroupResource>) -> watch::Receiver<u64> {
        match resource {
            None => self.read().subscribe_all(),
            Some(resource) => self.state.write().unwrap_or_else(PoisonError::into_inner).subscribe(resource),
        }
    }

    /// Whether the store takes writes. A full disk is looked at again by the writer, so that a store without other
    /// writes is found to have recovered. After any other error only a new start reads what the file holds.
    pub fn health(&self) -> Health {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.as_ref().is_none_or(thread::JoinHandle::is_finished) {
            return Health::NeedsRestart("the writer of the store has ended".to_owned());
        }
        let failure = self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match failure {
            None => Health::Ok,
            Some(error) if matches!(*error, OpenError::Full) => {
                self.probe();
                Health::NotReady(error.to_string())
            }
            Some(error) => Health::NeedsRestart(capstan_text::chain(&*error)),
        }
    }

    fn probe(&self) {
        if !self.has_probe.swap(true, Ordering::Relaxed)
            && let Some(jobs) = &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
        {
            // An error says that the writer has ended, which `health` reports.
            drop(jobs.send(Job::Probe));
        }
    }

    /// Stops the writer once it has done what it was given. Later writes fail.
    pub fn close(&self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        // A panic while the lock was held for writing can only be a bug in `State::publish`, which does
        // not panic half-way: the state is whole.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

/// A store that has been read but does not take writes yet.
pub struct Opened {
    state: Arc<RwLock<State>>,
    log: log::Log,
}

impl Opened {
    /// Every object there is, before any write.
    pub fn everything(&self) -> Listing {
        self.state.read().unwrap_or_else(PoisonError::into_inner).everything()
    }

    /// Starts the writer.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(self, observer: Observer) -> Result<Store, OpenError> {
        let (jobs, queue) = mpsc::channel();
        let (last_failure, has_probe) = (LastFailure::default(), Arc::new(AtomicBool::new(false)));
        let reports =
            writer::Reports { last_failure: Arc::clone(&last_failure), has_probe: Arc::clone(&has_probe) };
        let writer = writer::Writer::new(self.log, Arc::clone(&self.state), observer, reports);
        let thread = thread::Builder::new()
            .name("apiserver-store".to_owned())
            .spawn(move || writer.run(&queue))
            .map_err(OpenError::Thread)?;
        Ok(Store {
            state: self.state,
            jobs: Mutex::new(Some(jobs)),
            thread: Mutex::new(Some(thread)),
            last_failure,
            has_probe,
        })
    }
}
