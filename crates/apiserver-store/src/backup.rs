//! Backups: all objects at one revision, and the files that they need.
//!
//! A backup is lines of JSON: a header, each file, each object, and last the digest of all lines before. It is read
//! from memory, which has committed state only, so it blocks no writer. It does not contain the history for watches:
//! clients of watches have to list again.

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
use capstan_files::Durability;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Key, OpenError, Storage, Store, Stored, TOKEN_KEYS,
    file::{self, Held},
    log,
};

/// The format that is written, and the newest that can be read.
const FORMAT: u64 = 1;
/// How far a restored store is ahead of its backup. Whatever was written after the backup was taken, clients
/// may remember; no revision of it must come again with another meaning.
const LEAP: u64 = 1_000_000_000;
/// Files under this name belong to the store's own folder.
const OWN: &str = "store/";
const CHUNK: usize = 64 << 10;

/// Files beside the store that belong into its backup, by their names there: without the keys no token of before would be
/// valid again.
pub fn own_files(storage: &Storage) -> Option<(String, PathBuf)> {
    match storage {
        Storage::Folder(folder) => Some((format!("{OWN}{TOKEN_KEYS}"), folder.join(TOKEN_KEYS))),
        Storage::Memory => None,
    }
}

/// Why a backup cannot be created or used.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file cannot be read or written.
    #[error("cannot use {}", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// The file is not a backup.
    #[error("{} is not a backup", .0.display())]
    Foreign(PathBuf),
    /// A newer version of the program wrote the backup.
    #[error("{} is in format {found} and this program knows up to {known}: use a newer one", .path.display())]
    Newer {
        /// The backup.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest that can be read.
        known: u64,
    },
    /// The backup is truncated.
    #[error("{} is not complete: its end is missing. Take another one", .0.display())]
    Truncated(PathBuf),
    /// The checksum does not match.
    #[error("{} has been altered or damaged: its digest does not match. Take another one", .0.display())]
    Altered(PathBuf),
    /// No revisions are left for its objects.
    #[error("the backup ends at revision {0}, and no higher ones are left for its objects. Take another one")]
    NoRevisions(u64),
    /// The folder contains no store.
    #[error("there is no store in {}", .0.display())]
    NoStore(PathBuf),
    /// The folder to restore to already contains a store.
    #[error("there is a store in {} already", .0.display())]
    Occupied(PathBuf),
    /// The store cannot be opened or read.
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

/// All objects at one revision, and the files that belong to them.
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
    pub fn of(
        store: &Store,
        files: &BTreeMap<String, PathBuf>,
        taken: Timestamp,
    ) -> Result<Self, BackupError> {
        let everything = store.everything();
        Ok(Self { revision: everything.revision, taken, objects: everything.items, files: read(files)? })
    }

    /// Creates a backup of a store that no server has open. `files` are included under their names in the backup.
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
        files.extend(own_files(&storage));
        let (revision, objects) = (everything.revision, everything.items);
        Ok(Self { revision, taken: Timestamp::now(), objects, files: read(&files)? })
    }

    /// Reads and verifies a backup.
    ///
    /// # Errors
    /// If it is not a backup, truncated, altered, or of a newer format.
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

    /// Writes the backup to a new file that only its owner can read. A process that is killed leaves no incomplete
    /// file.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn write(self, path: &Path) -> Result<(), BackupError> {
        let mut file = PartialFile::create(path)?;
        for chunk in self.into_chunks() {
            file.write(&chunk)?;
        }
        file.finish().map(drop)
    }

    /// The encoded backup in chunks.
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

    /// Creates a store in a folder that has none. Every object gets a revision far beyond those that clients have
    /// seen, so that watches start again. Returns the last revision.
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
        let room = u64::MAX - LEAP - objects.len() as u64;
        if self.revision > room {
            return Err(BackupError::NoRevisions(self.revision));
        }
        let start = self.revision + LEAP;
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

    /// The revision of the store when the backup was taken.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The time when the backup was taken.
    pub fn taken(&self) -> Timestamp {
        self.taken
    }

    /// Number of objects.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// The files of the backup, except those that [`Backup::restore`] writes.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let files = self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
        files.filter(|(name, _)| !name.starts_with(OWN))
    }
}

/// A new file that only its owner can read, which gets its name when it is complete.
#[derive(Debug)]
pub struct PartialFile {
    path: PathBuf,
    file: BufWriter<capstan_files::PartialFile>,
}

impl PartialFile {
    /// Creates the temporary file.
    ///
    /// # Errors
    /// If a file of that name exists, or the folder cannot be written.
    pub fn create(path: &Path) -> Result<Self, BackupError> {
        let failed = |error| BackupError::File(path.to_owned(), error);
        if path.try_exists().map_err(failed)? {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        let file = capstan_files::PartialFile::create(path, 0o600).map_err(|error| failed(error.source))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file) })
    }

    /// Appends to the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.file.write_all(bytes).map_err(|error| BackupError::File(self.path.clone(), error))
    }

    /// Reads the file back and renames it if it is a complete backup.
    ///
    /// # Errors
    /// If it is not, or cannot be written.
    pub fn finish(self) -> Result<Backup, BackupError> {
        let failed = |error| BackupError::File(self.path.clone(), error);
        let file = self.file.into_inner().map_err(|error| failed(error.into_error()))?;
        let backup = Backup::read(file.partial())?;
        file.finish(Durability::Lasting).map_err(|error| failed(error.source))?;
        Ok(backup)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers in a backup may be anything: its digest says only that the file is whole.
    #[test]
    fn a_backup_without_room_for_revisions_is_rejected() {
        for (revision, has_room) in
            [(7, true), (u64::MAX - LEAP, true), (u64::MAX - LEAP + 1, false), (u64::MAX, false)]
        {
            let folder = tempfile::tempdir().unwrap();
            let backup =
                Backup { revision, taken: Timestamp::now(), objects: Vec::new(), files: BTreeMap::new() };
            match backup.restore(folder.path()) {
                Ok(last) => assert!(has_room && last == revision + LEAP, "{revision}"),
                Err(error) => assert!(!has_room && matches!(error, BackupError::NoRevisions(_)), "{error}"),
            }
        }
    }
}
