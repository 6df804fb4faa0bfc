//! A file that gets its name when it is finished, for content that does not fit in memory.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::{Durability, WriteError, folder_of, sync_folder};

const SUFFIX: &[u8] = b".partial";

/// The longest name of a file on Linux file systems, in bytes.
const LONGEST_NAME: usize = 255;

/// A file that is being written beside its final name. Dropped before [`PartialFile::finish`], it is removed.
#[derive(Debug)]
pub struct PartialFile {
    path: PathBuf,
    partial: PathBuf,
    file: File,
    is_finished: bool,
}

impl PartialFile {
    /// Begins a file with exactly this mode, whatever the umask is.
    ///
    /// # Errors
    /// If its folder does not exist or cannot be written.
    pub fn create(path: &Path, mode: u32) -> Result<Self, WriteError> {
        let partial = partial_name(path);
        let create = || {
            // A partial file that a crash left behind may have another mode or owner.
            match fs::remove_file(&partial) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = OpenOptions::new().write(true).create_new(true).mode(mode & 0o600).open(&partial)?;
            file.set_permissions(Permissions::from_mode(mode))?;
            Ok(file)
        };
        let file = create().map_err(WriteError::of(path))?;
        Ok(Self { path: path.to_owned(), partial, file, is_finished: false })
    }

    /// Where the content is until the file is finished.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// Syncs the content and gives the file its name.
    ///
    /// # Errors
    /// If it cannot be synced or renamed. The old file is still there then, unless only the sync of the folder failed.
    pub fn finish(mut self, durability: Durability) -> Result<(), WriteError> {
        let mut finish = || {
            self.file.sync_all()?;
            fs::rename(&self.partial, &self.path)?;
            self.is_finished = true;
            match durability {
                Durability::Whole => Ok(()),
                Durability::Lasting => sync_folder(folder_of(&self.path)),
            }
        };
        finish().map_err(WriteError::of(&self.path))
    }
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // The next write of this path removes it otherwise.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Always the same for a path, so that the next write replaces what a crash left behind.
fn partial_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let kept = &name[..name.len().min(LONGEST_NAME - SUFFIX.len())];
    path.with_file_name(OsString::from_vec([kept, SUFFIX].concat()))
}
