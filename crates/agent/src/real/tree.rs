//! Removes a folder with its content.

use capstan_plan::MachinePath;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, fsync, openat, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use super::files::{cannot, temporary, wrong};
use super::walk::{look, parent};
use crate::machine::{Found, MachineError};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes the folder at a path, and what a crash has left beside it.
pub(super) fn remove_at(root: &OwnedFd, path: &MachinePath) -> Result<(), MachineError> {
    let Some(folder) = parent(root, path)? else { return Ok(()) };
    remove(&folder, &temporary(path)).map_err(cannot("clean up beside", path))?;
    match look(&folder, path.name()).map_err(cannot("look at", path))? {
        Found::Nothing => {}
        Found::Directory { .. } => remove(&folder, path.name()).map_err(cannot("remove", path))?,
        found => return Err(wrong(path, found, "a folder")),
    }
    fsync(&folder).map_err(cannot("sync the folder of", path))
}

/// Removes the entry of this name, without following links or entering mounts. Succeeds if it does not exist.
pub(super) fn remove(folder: &OwnedFd, name: &str) -> io::Result<()> {
    let stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        stat => stat?,
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Ok(unlinkat(folder, name, AtFlags::empty())?);
    }
    let tree = openat(folder, name, FOLDER, Mode::empty())?;
    empty(&tree, fstat(folder)?.st_dev)?;
    Ok(unlinkat(folder, name, AtFlags::REMOVEDIR)?)
}

fn empty(tree: &OwnedFd, device: u64) -> io::Result<()> {
    if fstat(tree)?.st_dev != device {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "something is mounted in it"));
    }
    for entry in Dir::read_from(tree)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        // What it said it is may be unknown, or another thing by now: only what can be entered is.
        match openat(tree, name, FOLDER, Mode::empty()) {
            Ok(inner) => {
                empty(&inner, device)?;
                unlinkat(tree, name, AtFlags::REMOVEDIR)?;
            }
            Err(Errno::NOTDIR | Errno::LOOP) => unlinkat(tree, name, AtFlags::empty())?,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
