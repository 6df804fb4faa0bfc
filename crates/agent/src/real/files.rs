//! Files and folders on Linux: atomic, durable, without following links.

use capstan_plan::{Digest, MachinePath};
use jiff::Timestamp;
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Uid, fchmod, fchown, fsync, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use super::walk::{existing_parent, look, parent};
use crate::machine::{Found, MachineError, Metadata};

pub(super) fn inspect(root: &OwnedFd, path: &MachinePath) -> Result<Found, MachineError> {
    match parent(root, path)? {
        None => Ok(Found::Nothing),
        Some(folder) => look(&folder, path.name()).map_err(cannot("look at", path)),
    }
}

pub(super) fn modified(root: &OwnedFd, path: &MachinePath) -> Result<Option<Timestamp>, MachineError> {
    let Some(folder) = parent(root, path)? else { return Ok(None) };
    let stat = match statat(&folder, path.name(), AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        stat => stat.map_err(cannot("look at", path))?,
    };
    // A file system may contain any time.
    Ok(Some(Timestamp::from_second(stat.st_mtime).unwrap_or(Timestamp::MIN)))
}

pub(super) fn read(root: &OwnedFd, path: &MachinePath, most: u64) -> Result<Vec<u8>, MachineError> {
    let file = open(root, path)?;
    let size = file.metadata().map_err(cannot("look at", path))?.len();
    let mut content = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut content).map_err(cannot("read", path))?;
    if content.len() as u64 > most {
        return Err(MachineError::TooLarge { path: path.clone(), size, most });
    }
    Ok(content)
}

/// Opens a regular file for reading.
pub(super) fn open(root: &OwnedFd, path: &MachinePath) -> Result<File, MachineError> {
    let folder = existing_parent(root, path)?;
    // Without O_NONBLOCK a pipe that somebody put there would make us wait for ever.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(&folder, path.name(), flags, Mode::empty()).map_err(cannot("open", path))?);
    let about = file.metadata().map_err(cannot("look at", path))?;
    if !about.is_file() {
        return Err(MachineError::WrongKind {
            path: path.clone(),
            found: "something else",
            wanted: "a file",
        });
    }
    Ok(file)
}

pub(super) fn write(
    root: &OwnedFd,
    path: &MachinePath,
    content: &[u8],
    metadata: Metadata,
) -> Result<(), MachineError> {
    let folder = existing_parent(root, path)?;
    let temporary = temporary(path);
    // What a crash has left behind.
    drop_if_there(&folder, &temporary).map_err(cannot("make room beside", path))?;
    let written = write_new(&folder, &temporary, content, metadata)
        .and_then(|()| Ok(renameat(&folder, temporary.as_str(), &folder, path.name())?))
        .and_then(|()| Ok(fsync(&folder)?));
    written.map_err(|error| {
        let _ = drop_if_there(&folder, &temporary);
        MachineError::io(format!("write {path}"), error)
    })
}

fn write_new(folder: &OwnedFd, name: &str, content: &[u8], metadata: Metadata) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(folder, name, flags, Mode::from_raw_mode(0o600))?);
    file.write_all(content)?;
    own(&file, metadata)?;
    file.sync_all()
}

/// Sets the owner first, because a change of the owner clears some bits of the mode.
pub(super) fn own(file: impl std::os::fd::AsFd, metadata: Metadata) -> io::Result<()> {
    fchown(&file, Some(Uid::from_raw(metadata.owner)), Some(Gid::from_raw(metadata.group)))?;
    Ok(fchmod(&file, Mode::from_raw_mode(metadata.mode))?)
}

pub(super) fn make_directory(
    root: &OwnedFd,
    path: &MachinePath,
    metadata: Metadata,
) -> Result<(), MachineError> {
    let folder = existing_parent(root, path)?;
    match mkdirat(&folder, path.name(), Mode::from_raw_mode(0o700)) {
        Ok(()) => {}
        Err(Errno::EXIST) => match look(&folder, path.name()) {
            Ok(Found::Directory { .. }) => {}
            Ok(found) => return Err(wrong(path, found, "a folder")),
            Err(error) => return Err(cannot("look at", path)(error)),
        },
        Err(error) => return Err(cannot("make", path)(error)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = openat(&folder, path.name(), flags, Mode::empty()).map_err(cannot("open", path))?;
    own(&made, metadata).map_err(cannot("set the owner of", path))?;
    fsync(&made).and_then(|()| fsync(&folder)).map_err(cannot("sync", path))
}

pub(super) fn remove_file(root: &OwnedFd, path: &MachinePath) -> Result<(), MachineError> {
    let Some(folder) = parent(root, path)? else { return Ok(()) };
    drop_if_there(&folder, &temporary(path)).map_err(cannot("clean up beside", path))?;
    match look(&folder, path.name()).map_err(cannot("look at", path))? {
        Found::Nothing => {}
        Found::File { .. } => drop_if_there(&folder, path.name()).map_err(cannot("remove", path))?,
        found @ (Found::Directory { .. } | Found::Other(_)) => return Err(wrong(path, found, "a file")),
    }
    fsync(&folder).map_err(cannot("sync the folder of", path))
}

pub(super) fn remove_directory(root: &OwnedFd, path: &MachinePath) -> Result<(), MachineError> {
    let Some(folder) = parent(root, path)? else { return Ok(()) };
    match unlinkat(&folder, path.name(), AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => fsync(&folder).map_err(cannot("sync the folder of", path)),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Err(MachineError::NotEmpty(path.clone())),
        Err(Errno::NOTDIR) => {
            let found = look(&folder, path.name()).map_err(cannot("look at", path))?;
            Err(wrong(path, found, "a folder"))
        }
        Err(error) => Err(cannot("remove", path)(error)),
    }
}

/// The temporary name for a path. It is always the same, so that the rest of a crash is found again.
pub(super) fn temporary(path: &MachinePath) -> String {
    format!(".capstan-{}.tmp", Digest::of(path.name().as_bytes()).short())
}

pub(super) fn drop_if_there(folder: &OwnedFd, name: &str) -> Result<(), Errno> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

pub(super) fn cannot<E: Into<io::Error>>(what: &str, path: &MachinePath) -> impl FnOnce(E) -> MachineError {
    let what = format!("{what} {path}");
    move |error| MachineError::io(what, error)
}

pub(super) fn wrong(path: &MachinePath, found: Found, wanted: &'static str) -> MachineError {
    MachineError::WrongKind { path: path.clone(), found: found.describe(), wanted }
}
