//! Files that are written whole or not at all: a partial file beside the target, fsync, rename.
//!
//! A reader sees the old content or the new content. A crash leaves the old file, and perhaps a partial file that the next
//! write replaces. Nothing here locks: two writers of one path need a lock of their own.

mod partial;
mod rotating;

pub use partial::PartialFile;
pub use rotating::{RotatingFile, Rotation};

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// What survives a power failure once a write has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The file is the old one or the new one, and each is whole.
    Whole,
    /// The file is the new one: the folder is synced too.
    Lasting,
}

/// A file that could not be written, and why.
#[derive(Debug)]
pub struct WriteError {
    /// The file, by its final name.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: io::Error,
}

impl WriteError {
    fn of(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self { path, source }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "cannot write {}", self.path.display())
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Replaces a file, or creates it, with exactly this mode, whatever the umask is.
///
/// # Errors
/// If its folder does not exist or cannot be written. The old file is still there then.
pub fn write(path: &Path, content: &[u8], mode: u32, durability: Durability) -> Result<(), WriteError> {
    let mut partial = PartialFile::create(path, mode)?;
    partial.write_all(content).map_err(WriteError::of(path))?;
    partial.finish(durability)
}

/// Gives a finished file or folder its final name, which lasts once this returns.
///
/// # Errors
/// If it cannot be synced or renamed.
pub fn publish(partial: &Path, path: &Path) -> Result<(), WriteError> {
    let publish = || {
        File::open(partial)?.sync_all()?;
        fs::rename(partial, path)?;
        sync_folder(folder_of(path))
    };
    publish().map_err(WriteError::of(path))
}

/// Makes the names in a folder last.
///
/// # Errors
/// If the folder cannot be read or synced.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The folder of a file; a bare name is in the current folder.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests;
