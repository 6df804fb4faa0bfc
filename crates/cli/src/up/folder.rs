//! The data folder of a plane: its layout, the lock that limits it to one process, and whether it was restored from a
//! backup and not reviewed yet.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::pki::write_secret;

const LOCK: &str = "lock";
const RESTORED: &str = "restored";
/// Stands in [`RESTORED`] until a restore is complete.
const UNFINISHED: &str = "unfinished\n";

/// A data folder that is ours until this is dropped, also if we are killed.
#[derive(Debug)]
pub(crate) struct DataFolder {
    path: PathBuf,
    _lock: File,
}

/// Who has a data folder.
#[derive(Debug)]
pub(crate) enum Taken {
    Ours(DataFolder),
    /// Another process, with its number where that is known.
    Theirs(String),
}

/// What a restore has left behind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Restored {
    /// Nothing: there was none, or it has been gone on from.
    No,
    /// It was cut off.
    Unfinished,
    /// It is complete, and says of which backup.
    Paused(String),
}

impl DataFolder {
    /// Makes the folder if it is absent; refuses one that another process uses.
    pub(crate) fn take(path: &Path) -> Result<Self> {
        let made = fs::create_dir_all(path);
        made.with_context(|| format!("cannot make {}; pass another --data-dir", path.display()))?;
        match Self::try_take(path)? {
            Taken::Ours(folder) => Ok(folder),
            Taken::Theirs(who) => {
                bail!(
                    "{} is in use by {who}: stop that one first, or pass another --data-dir",
                    path.display()
                )
            }
        }
    }

    /// Takes a folder that is there, unless somebody else has it.
    pub(crate) fn try_take(path: &Path) -> Result<Taken> {
        let mut options = OpenOptions::new();
        let lock =
            options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path.join(LOCK));
        let mut lock = lock.with_context(|| {
            format!("cannot write to {}; pass a --data-dir that can be written", path.display())
        })?;
        match lock.try_lock() {
            Ok(()) => {
                // For whoever finds it taken; nobody relies on it.
                let noted = lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id()));
                noted.with_context(|| format!("cannot write to {}", path.display()))?;
                Ok(Taken::Ours(Self { path: path.to_owned(), _lock: lock }))
            }
            Err(TryLockError::WouldBlock) => {
                let mut number = String::new();
                let known = lock.read_to_string(&mut number).is_ok() && !number.is_empty();
                Ok(Taken::Theirs(if known {
                    format!("process {number}")
                } else {
                    "another process".to_owned()
                }))
            }
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it holds anything but what may be put there before a plane is.
    pub(crate) fn is_occupied(&self) -> Result<bool> {
        let entries =
            fs::read_dir(&self.path).with_context(|| format!("cannot read {}", self.path.display()))?;
        let mut names = entries.filter_map(Result::ok).map(|entry| entry.file_name());
        Ok(names.any(|name| name != LOCK && name != "artifacts"))
    }

    pub(crate) fn restored(&self) -> Result<Restored> {
        let path = self.path.join(RESTORED);
        match fs::read_to_string(&path) {
            Ok(text) if text == UNFINISHED => Ok(Restored::Unfinished),
            Ok(text) => Ok(Restored::Paused(text.trim().to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Restored::No),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// From here on the folder is not whole, until [`DataFolder::end_restore`].
    pub(crate) fn begin_restore(&self) -> Result<()> {
        write_secret(&self.path.join(RESTORED), UNFINISHED)
    }

    /// What is there is complete, and of this backup.
    pub(crate) fn end_restore(&self, backup: &str) -> Result<()> {
        write_secret(&self.path.join(RESTORED), &format!("{backup}\n"))
    }

    /// The controllers may go on.
    pub(crate) fn resume(&self) -> Result<()> {
        let path = self.path.join(RESTORED);
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))
    }
}

/// Where the store is.
pub(crate) fn store(data_dir: &Path) -> PathBuf {
    data_dir.join("store")
}

/// Where the plane's certificate authority is.
pub(crate) fn pki(data_dir: &Path) -> PathBuf {
    data_dir.join("pki")
}

/// The administrator's kubeconfig, by which this machine finds a plane that runs.
pub(crate) fn kubeconfig(data_dir: &Path) -> PathBuf {
    data_dir.join("admin.kubeconfig")
}

/// What belongs into a backup beside the objects, by its path in the folder: machines know the plane by its
/// authority.
pub(crate) fn backup_files(data_dir: &Path) -> BTreeMap<String, PathBuf> {
    ["pki/ca.crt", "pki/ca.key"].map(|name| (name.to_owned(), data_dir.join(name))).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_has_it_and_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let held = DataFolder::take(folder.path()).unwrap();
        let error = DataFolder::take(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(held);
        DataFolder::take(folder.path()).unwrap();
    }

    #[test]
    fn a_restore_is_remembered_until_it_is_gone_on_from() {
        let folder = tempfile::tempdir().unwrap();
        let held = DataFolder::take(folder.path()).unwrap();
        assert!(!held.is_occupied().unwrap());
        assert_eq!(held.restored().unwrap(), Restored::No);
        held.begin_restore().unwrap();
        assert_eq!(held.restored().unwrap(), Restored::Unfinished);
        assert!(held.is_occupied().unwrap());
        held.end_restore("the backup of today").unwrap();
        assert_eq!(held.restored().unwrap(), Restored::Paused("the backup of today".to_owned()));
        held.resume().unwrap();
        assert_eq!(held.restored().unwrap(), Restored::No);
    }
}
