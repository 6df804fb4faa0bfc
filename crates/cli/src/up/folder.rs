//! The data folder of a plane: its layout, the lock that limits it to one process, and whether it was restored from a
//! backup and not reviewed yet.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::authorities;
use super::pki::write_secret;

const LOCK: &str = "lock";
const RESTORED: &str = "restored";
/// Stands in [`RESTORED`] until a restore is complete.
const UNFINISHED: &str = "unfinished\n";

/// A locked data folder. The lock ends when the value is dropped, and when the process ends.
#[derive(Debug)]
pub(crate) struct DataFolder {
    path: PathBuf,
    _lock: File,
}

/// Whether a data folder could be locked.
#[derive(Debug)]
pub(crate) enum Taken {
    Ours(DataFolder),
    /// Another process has locked it; its process ID, if known.
    Theirs(String),
}

/// The state of a restore in the data folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Restored {
    /// No restore, or the controllers were resumed after it.
    No,
    /// A restore was interrupted.
    Unfinished,
    /// The restore is complete; the name of its backup.
    Paused(String),
}

impl DataFolder {
    /// Locks the folder, and creates it if it is missing. Fails if another process uses it.
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

    /// Locks an existing folder, unless another process has locked it.
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

    /// Whether it contains more than the files that may exist before a plane does.
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

    /// Marks the folder as incomplete, until [`DataFolder::end_restore`].
    pub(crate) fn begin_restore(&self) -> Result<()> {
        write_secret(&self.path.join(RESTORED), UNFINISHED)
    }

    /// Marks the restore of this backup as complete.
    pub(crate) fn end_restore(&self, backup: &str) -> Result<()> {
        write_secret(&self.path.join(RESTORED), &format!("{backup}\n"))
    }

    /// Lets the controllers resume.
    pub(crate) fn resume(&self) -> Result<()> {
        let path = self.path.join(RESTORED);
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))
    }
}

/// Path of the store.
pub(crate) fn store(data_dir: &Path) -> PathBuf {
    data_dir.join("store")
}

/// Path of the plane's CA.
pub(crate) fn pki(data_dir: &Path) -> PathBuf {
    data_dir.join("pki")
}

/// Path of the administrator's kubeconfig, by which commands on this computer find a running plane.
pub(crate) fn kubeconfig(data_dir: &Path) -> PathBuf {
    data_dir.join("admin.kubeconfig")
}

/// Files that a backup may have in addition to the objects, by their path in the folder: the CAs, by which machines verify the
/// plane.
pub(crate) fn backup_files(data_dir: &Path) -> BTreeMap<String, PathBuf> {
    let of = |name| format!("pki/{name}");
    authorities::FILES.map(|name| (of(name), data_dir.join(of(name)))).into()
}

/// Those of them that exist.
pub(crate) fn existing_backup_files(data_dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut files = backup_files(data_dir);
    files.retain(|_, path| path.exists());
    files
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
