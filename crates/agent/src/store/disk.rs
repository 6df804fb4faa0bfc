//! A store in a folder that only its owner can read: the files `journal`, `archive`, `plan` and `runs`, and kept files by their digest.

use capstan_files::{Durability, sync_folder};
use capstan_plan::Digest;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::Store;

/// A store in a folder.
#[derive(Debug)]
pub struct DiskStore {
    folder: Arc<Folder>,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// The lock of the folder: two agents must not use one journal.
    _lock: File,
    /// A write continues if its future is dropped: the next one waits for it.
    write_lock: Mutex<()>,
}

const JOURNAL: &str = "journal";
const KEPT: &str = "kept";
const PLAN: &str = "plan";
const ARCHIVE: &str = "archive";
const RUNS: &str = "runs";

impl Folder {
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| sync_folder(&self.path)),
        }
    }
}

impl DiskStore {
    /// Opens the folder, and creates it if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read or written, or another agent has it open.
    pub async fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        blocking(move || {
            DirBuilder::new().recursive(true).mode(0o700).create(path.join(KEPT))?;
            let lock = OpenOptions::new()
                .create(true)
                .write(true)
                .truncate(false)
                .mode(0o600)
                .open(path.join("lock"))?;
            take(&lock).map_err(|error| {
                let text = format!("{} is in use by another agent: {error}", path.display());
                io::Error::new(io::ErrorKind::ResourceBusy, text)
            })?;
            if let Some(above) = path.parent() {
                sync_folder(above)?;
            }
            sync_folder(&path)?;
            Ok(Self { folder: Arc::new(Folder { path, _lock: lock, write_lock: Mutex::new(()) }) })
        })
        .await
    }

    async fn with<T, F>(&self, work: F) -> io::Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Folder) -> io::Result<T> + Send + 'static,
    {
        let folder = Arc::clone(&self.folder);
        blocking(move || {
            let _write_lock = folder.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
            work(&folder)
        })
        .await
    }
}

impl Store for DiskStore {
    async fn load(&mut self) -> io::Result<Vec<u8>> {
        self.with(|folder| match fs::read(folder.path.join(JOURNAL)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        })
        .await
    }

    async fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let bytes = bytes.to_vec();
        self.with(move |folder| {
            let path = folder.path.join(JOURNAL);
            let is_new = !path.exists();
            let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
            let before = file.metadata()?.len();
            let written = file.write_all(&bytes).and_then(|()| file.sync_data());
            if written.is_err() {
                // Half a line would hide the next one. If this fails too, opening the journal finds the half.
                let _ = file.set_len(before).and_then(|()| file.sync_data());
            }
            if is_new { written.and_then(|()| sync_folder(&folder.path)) } else { written }
        })
        .await
    }

    async fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let bytes = bytes.to_vec();
        self.with(move |folder| put(&folder.path, JOURNAL, &bytes)).await
    }

    async fn keep(&mut self, digest: Digest, content: &[u8]) -> io::Result<()> {
        let content = content.to_vec();
        self.with(move |folder| put(&folder.path.join(KEPT), &digest.to_string(), &content)).await
    }

    async fn kept(&mut self, digest: Digest) -> io::Result<Vec<u8>> {
        let content =
            self.with(move |folder| fs::read(folder.path.join(KEPT).join(digest.to_string()))).await?;
        if Digest::of(&content) != digest {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("kept content {digest} has changed"),
            ));
        }
        Ok(content)
    }

    async fn put_plan(&mut self, bytes: &[u8]) -> io::Result<()> {
        let bytes = bytes.to_vec();
        self.with(move |folder| put(&folder.path, PLAN, &bytes)).await
    }

    async fn plan(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.with(|folder| folder.read(PLAN)).await
    }

    async fn forget_plan(&mut self) -> io::Result<()> {
        self.with(|folder| folder.remove(PLAN)).await
    }

    async fn archive(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.with(|folder| folder.read(ARCHIVE)).await
    }

    async fn put_archive(&mut self, bytes: &[u8]) -> io::Result<()> {
        let bytes = bytes.to_vec();
        self.with(move |folder| put(&folder.path, ARCHIVE, &bytes)).await
    }

    async fn forget_archive(&mut self) -> io::Result<()> {
        self.with(|folder| folder.remove(ARCHIVE)).await
    }

    async fn runs(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.with(|folder| folder.read(RUNS)).await
    }

    async fn put_runs(&mut self, bytes: &[u8]) -> io::Result<()> {
        let bytes = bytes.to_vec();
        self.with(move |folder| put(&folder.path, RUNS, &bytes)).await
    }

    async fn forget_runs(&mut self) -> io::Result<()> {
        self.with(|folder| folder.remove(RUNS)).await
    }

    async fn keep_only(&mut self, digests: &BTreeSet<Digest>) -> io::Result<()> {
        let wanted: BTreeSet<String> = digests.iter().map(Digest::to_string).collect();
        self.with(move |folder| {
            for entry in fs::read_dir(folder.path.join(KEPT))? {
                let entry = entry?;
                if !entry.file_name().to_str().is_some_and(|name| wanted.contains(name)) {
                    fs::remove_file(entry.path())?;
                }
            }
            Ok(())
        })
        .await
    }
}

/// Writes a file atomically. Durable when it returns.
pub(crate) fn put(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    capstan_files::write(&folder.join(name), bytes, 0o600, Durability::Lasting).map_err(|error| error.source)
}

async fn blocking<T, F>(work: F) -> io::Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> io::Result<T> + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Takes the lock, with retries: a process that is being started holds a copy of its parent's lock until it executes
/// its program.
fn take(lock: &File) -> rustix::io::Result<()> {
    let mut tries = 100;
    loop {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if tries > 0 => tries -= 1,
            result => return result,
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
