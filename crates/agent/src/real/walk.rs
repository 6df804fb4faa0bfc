//! Opens the parent of a path, folder by folder, without following symbolic links.

use capstan_plan::MachinePath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

use crate::machine::{Found, MachineError, Metadata};

/// The parent folder of a path; `None` if it is missing.
///
/// Each component is opened from the folder before it, so that no program can replace one by a link between a check and
/// its use.
pub(super) fn parent(root: &OwnedFd, path: &MachinePath) -> Result<Option<OwnedFd>, MachineError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = root.try_clone().map_err(|error| MachineError::io("open the root", error))?;
    let mut above: Vec<MachinePath> = std::iter::successors(path.parent(), MachinePath::parent).collect();
    above.reverse();
    for part in above {
        folder = match openat(&folder, part.name(), flags, Mode::empty()) {
            Ok(next) => next,
            Err(Errno::NOENT) => return Ok(None),
            Err(error @ (Errno::NOTDIR | Errno::LOOP)) => {
                return Err(match look(&folder, part.name()) {
                    Ok(Found::Other(LINK)) => MachineError::Link(part),
                    Ok(found @ (Found::File { .. } | Found::Other(_))) => {
                        MachineError::WrongKind { path: part, found: found.describe(), wanted: "a folder" }
                    }
                    _ => MachineError::io(format!("open {part}"), error),
                });
            }
            Err(error) => return Err(MachineError::io(format!("open {part}"), error)),
        };
    }
    Ok(Some(folder))
}

/// The same; a missing folder is an error.
pub(super) fn existing_parent(root: &OwnedFd, path: &MachinePath) -> Result<OwnedFd, MachineError> {
    parent(root, path)?.ok_or_else(|| MachineError::io(format!("find the folder of {path}"), Errno::NOENT))
}

const LINK: &str = "a symbolic link";

/// The entry of this name in a folder.
pub(super) fn look(folder: &OwnedFd, name: &str) -> Result<Found, Errno> {
    let stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    };
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            Found::File { metadata: metadata(&stat), size: u64::try_from(stat.st_size).unwrap_or_default() }
        }
        FileType::Directory => Found::Directory { metadata: metadata(&stat) },
        FileType::Symlink => Found::Other(LINK),
        FileType::BlockDevice | FileType::CharacterDevice => Found::Other("a device"),
        FileType::Fifo => Found::Other("a pipe"),
        FileType::Socket => Found::Other("a socket"),
        FileType::Unknown => Found::Other("something unknown"),
    })
}

fn metadata(stat: &Stat) -> Metadata {
    Metadata { mode: stat.st_mode & 0o7777, owner: stat.st_uid, group: stat.st_gid }
}
