//! Backups: all objects as of one revision, and the few files without which they are worth little.
//!
//! A backup is lines of JSON: what it is, each file, each object, and last the digest of all that came before.
//! It is taken from memory, which is what has been committed, so nobody waits while it is made. What watches
//! could be replayed from is not in it: who watched is told to list again.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, BufWriter, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use aws_lc_rs::digest::{Context, SHA256};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Key, OpenError, Storage, Store, Stored,
    file::{self, Held},
    log,
};

/// The format that is written, and the newest that can be read.
const FORMAT: u64 = 1;
/// How far a restored store is ahead of its backup. Whatever was written after the backup was taken, clients
/// may remember; no revision of it must come again with another meaning.
const LEAP: u64 = 1_000_000_000;
/// Files under this name belong to the store's own folder.
pub(crate) const OWN: &str = "store/";
const CHUNK: usize = 64 << 10;

/// Why a backup could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file cannot be read or written.
    #[error("cannot use {}", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// Something else.
    #[error("{} is not a backup", .0.display())]
    Foreign(PathBuf),
    /// Written by a program that knows more.
    #[error("{} is in format {found} and this program knows up to {known}: use a newer one", .path.display())]
    Newer {
        /// The backup.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest that can be read.
        known: u64,
    },
    /// The end is missing.
    #[error("{} is not complete: its end is missing. Take another one", .0.display())]
    Truncated(PathBuf),
    /// Not what was written.
    #[error("{} has been altered or damaged: its digest does not match. Take another one", .0.display())]
    Altered(PathBuf),
    /// There is nothing to take a backup of.
    #[error("there is no store in {}", .0.display())]
    NoStore(PathBuf),
    /// There is a store already where one is to be restored.
    #[error("there is a store in {} already", .0.display())]
    Occupied(PathBuf),
    /// The store.
    #[error(transparent)]
    Store(#[from] OpenError),
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    /// Also what tells a backup from other files.
    capstan_backup: u64,
    revision: u64,
    taken: Timestamp,
    objects: usize,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
enum Line {
    File { name: String, base64: String },
    Object { key: String, revision: u64, value: Value },
    End { sha256: String },
}

/// All objects as of one revision, and the files that go with them.
pub struct Backup {
    revision: u64,
    taken: Timestamp,
    objects: Vec<Arc<Stored>>,
    files: BTreeMap<String, Vec<u8>>,
}

impl std::fmt::Debug for Backup {
    /// Without what is in it: there are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backup")
            .field("revision", &self.revision)
            .field("objects", &self.objects.len())
            .finish_non_exhaustive()
    }
}

impl Backup {
    /// Of a store that serves.
    pub(crate) fn of(
        store: &Store,
        files: &BTreeMap<String, PathBuf>,
        taken: Timestamp,
    ) -> Result<Self, BackupError> {
        let everything = store.everything();
        Ok(Self { revision: everything.revision, taken, objects: everything.items, files: read(files)? })
    }

    /// Of a store in a folder that no server has open. `files` go with it, by the names they are to have.
    ///
    /// # Errors
    /// If the store is in use or damaged, or a file cannot be read.
    pub fn of_folder(folder: &Path, files: &BTreeMap<String, PathBuf>) -> Result<Self, BackupError> {
        if !file::is_in(folder) {
            return Err(BackupError::NoStore(folder.to_owned()));
        }
        let storage = Storage::Folder(folder.to_owned());
        let opened = Store::open(&storage, usize::MAX)?;
        let everything = opened.everything();
        let mut files = files.clone();
        files.extend(crate::auth::token::own_files(&storage));
        let (revision, objects) = (everything.revision, everything.items);
        Ok(Self { revision, taken: Timestamp::now(), objects, files: read(&files)? })
    }

    /// Reads and checks a backup.
    ///
    /// # Errors
    /// If it is something else, incomplete, altered, or of a newer format.
    pub fn read(path: &Path) -> Result<Self, BackupError> {
        let failed = |error| BackupError::File(path.to_owned(), error);
        let altered = || BackupError::Altered(path.to_owned());
        let mut lines = BufReader::new(File::open(path).map_err(failed)?);
        let mut digest = Context::new(&SHA256);
        let mut line = Vec::new();
        let mut next = |line: &mut Vec<u8>| {
            line.clear();
            lines.read_until(b'\n', line).map_err(failed)
        };
        next(&mut line)?;
        let head: Head = serde_json::from_slice(&line).map_err(|_| BackupError::Foreign(path.to_owned()))?;
        if head.capstan_backup > FORMAT {
            let (found, known) = (head.capstan_backup, FORMAT);
            return Err(BackupError::Newer { path: path.to_owned(), found, known });
        }
        digest.update(&line);
        let Head { revision, taken, .. } = head;
        let mut backup = Self { revision, taken, objects: Vec::new(), files: BTreeMap::new() };
        loop {
            next(&mut line)?;
            if !line.ends_with(b"\n") {
                return Err(BackupError::Truncated(path.to_owned()));
            }
            match serde_json::from_slice(&line).map_err(|_| altered())? {
                Line::End { sha256 } => {
                    let whole = sha256 == hex(digest) && backup.objects.len() == head.objects;
                    return if whole && next(&mut line)? == 0 { Ok(backup) } else { Err(altered()) };
                }
                Line::File { name, base64 } => {
                    backup.files.insert(name, BASE64_STANDARD.decode(base64).map_err(|_| altered())?);
                }
                Line::Object { key, revision, value } => {
                    let key = Key::decode(&key, None).ok_or_else(altered)?;
                    backup.objects.push(log::put(key, revision, value));
                }
            }
            digest.update(&line);
        }
    }

    /// Writes it where nothing is yet, for its owner only; killed half-way, nothing is there.
    ///
    /// # Errors
    /// If there is something already, or it cannot be written.
    pub fn write(self, path: &Path) -> Result<(), BackupError> {
        let mut file = PartialFile::create(path)?;
        for chunk in self.into_chunks() {
            file.write(&chunk)?;
        }
        file.finish().map(drop)
    }

    /// The bytes of it, bit by bit.
    pub fn into_chunks(self) -> impl Iterator<Item = Bytes> + Send {
        let head = Head {
            capstan_backup: FORMAT,
            revision: self.revision,
            taken: self.taken,
            objects: self.objects.len(),
        };
        let head = std::iter::once(line(&head));
        let files = self.files.into_iter();
        let files =
            files.map(|(name, bytes)| line(&Line::File { name, base64: BASE64_STANDARD.encode(bytes) }));
        let objects = self.objects.into_iter().map(|object| object_line(&object));
        let mut lines = head.chain(files).chain(objects);
        let mut digest = Some(Context::new(&SHA256));
        std::iter::from_fn(move || {
            let mut chunk = BytesMut::new();
            while chunk.len() < CHUNK {
                let Some(line) = lines.next() else {
                    let sha256 = digest.take().map(|mut digest| {
                        digest.update(&chunk);
                        hex(digest)
                    });
                    // Nothing once the end has been given.
                    chunk.extend_from_slice(&line_of_end(sha256?));
                    return Some(chunk.freeze());
                };
                chunk.extend_from_slice(&line);
            }
            if let Some(digest) = &mut digest {
                digest.update(&chunk);
            }
            Some(chunk.freeze())
        })
    }

    /// Makes a store of it in a folder that has none. Every object is written anew, at a revision far beyond
    /// all that clients can have seen. Gives the last revision.
    ///
    /// # Errors
    /// If there is a store, or it cannot be written.
    pub fn restore(&self, folder: &Path) -> Result<u64, BackupError> {
        let held = Held::take(folder)?;
        if !held.is_new() {
            return Err(BackupError::Occupied(folder.to_owned()));
        }
        for (name, bytes) in &self.files {
            // Only names of ours: none leads out of the folder.
            if let Some(name) = name.strip_prefix(OWN).filter(|name| !name.contains('/') && *name != "..") {
                write_private(&folder.join(name), bytes)?;
            }
        }
        let mut objects: Vec<&Arc<Stored>> = self.objects.iter().collect();
        objects.sort_by_key(|object| object.revision);
        let start = self.revision.saturating_add(LEAP);
        let stamped: Vec<Arc<Stored>> = (start..)
            .zip(objects)
            .map(|(revision, object)| {
                log::put(object.key.clone(), revision, object.value.once().into_owned())
            })
            .collect();
        let last = start + stamped.len() as u64;
        held.create(|database| Ok(log::fill(database, &stamped, last)?))?;
        Ok(last)
    }

    /// The revision it was taken at.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// When it was taken.
    pub fn taken(&self) -> Timestamp {
        self.taken
    }

    /// How many objects are in it.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// The files that go with the objects, but for those that [`Backup::restore`] writes itself.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let files = self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
        files.filter(|(name, _)| !name.starts_with(OWN))
    }
}

/// A file for its owner only that gets its name once it is whole, where nothing is yet.
#[derive(Debug)]
pub struct PartialFile {
    path: PathBuf,
    partial: PathBuf,
    file: BufWriter<File>,
}

impl PartialFile {
    /// Begins one.
    ///
    /// # Errors
    /// If there is something of that name, or nothing can be written there.
    pub fn create(path: &Path) -> Result<Self, BackupError> {
        let failed = |error| BackupError::File(path.to_owned(), error);
        if path.try_exists().map_err(failed)? {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        let mut name = path.as_os_str().to_owned();
        name.push(".partial");
        let partial = PathBuf::from(name);
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&partial);
        Ok(Self { path: path.to_owned(), partial, file: BufWriter::new(file.map_err(failed)?) })
    }

    /// Adds to it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.file.write_all(bytes).map_err(|error| BackupError::File(self.path.clone(), error))
    }

    /// Reads it back, and gives it its name if it is a whole backup.
    ///
    /// # Errors
    /// If it is not, or cannot be written.
    pub fn finish(mut self) -> Result<Backup, BackupError> {
        let synced = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        synced.map_err(|error| BackupError::File(self.path.clone(), error))?;
        let backup = Backup::read(&self.partial)?;
        fs::rename(&self.partial, &self.path)
            .and_then(|()| sync_parent(&self.path))
            .map_err(|error| BackupError::File(self.path.clone(), error))?;
        Ok(backup)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // It is gone already if it has got its name.
        let _ = fs::remove_file(&self.partial);
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

fn write_private(path: &Path, bytes: &[u8]) -> Result<(), BackupError> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error| BackupError::File(path.to_owned(), error))
}

fn read(files: &BTreeMap<String, PathBuf>) -> Result<BTreeMap<String, Vec<u8>>, BackupError> {
    let read = |path: &PathBuf| fs::read(path).map_err(|error| BackupError::File(path.clone(), error));
    files.iter().map(|(name, path)| Ok((name.clone(), read(path)?))).collect()
}

fn line(value: &impl Serialize) -> Bytes {
    // Strings and numbers only: serialising them cannot fail.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line.into()
}

/// As [`Line::Object`] is read, without serialising the object once more.
fn object_line(object: &Stored) -> Bytes {
    let key = Value::String(object.key.encode());
    let mut line =
        format!(r#"{{"object":{{"key":{key},"revision":{},"value":"#, object.revision).into_bytes();
    line.extend_from_slice(&object.json);
    line.extend_from_slice(b"}}\n");
    line.into()
}

fn line_of_end(sha256: String) -> Bytes {
    line(&Line::End { sha256 })
}

fn hex(digest: Context) -> String {
    digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
