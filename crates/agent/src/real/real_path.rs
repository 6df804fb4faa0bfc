//! Resolves symbolic links that only root, or the user of this process, can have made.

use capstan_plan::MachinePath;
use rustix::fs::{AtFlags, FileType, readlinkat, statat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use super::files::cannot;
use crate::machine::MachineError;

/// Largest number of links that are followed, as in the kernel.
const LINKS: usize = 40;

pub(super) fn of(root: &OwnedFd, path: &MachinePath) -> Result<MachinePath, MachineError> {
    let user = std::fs::metadata("/proc/self").map_or(0, |process| process.uid());
    let too_many = || MachineError::io(format!("follow the links of {path}"), Errno::LOOP);
    let mut left: Vec<PathBuf> = parts(Path::new(path.as_str()));
    let mut done = PathBuf::new();
    let mut followed = 0;
    while let Some(part) = left.pop() {
        match part.components().next() {
            Some(Component::Normal(_)) => {}
            Some(Component::ParentDir) => {
                done.pop();
                continue;
            }
            _ => continue,
        }
        let next = done.join(&part);
        let target = match link(root, &next, user) {
            Ok(Link::No) => {
                done = next;
                continue;
            }
            Ok(Link::Nothing) => {
                // What is missing contains no links.
                done = left.into_iter().rev().fold(next, |path, part| path.join(part));
                break;
            }
            Ok(Link::OfAnotherUser) => return Err(MachineError::Link(machine_path(&next, path)?)),
            Ok(Link::To(target)) => target,
            Err(error) => return Err(cannot("follow the links of", path)(error)),
        };
        followed += 1;
        if followed > LINKS {
            return Err(too_many());
        }
        if target.is_absolute() {
            done = PathBuf::new();
        }
        left.extend(parts(&target));
    }
    machine_path(&done, path)
}

enum Link {
    Nothing,
    No,
    To(PathBuf),
    OfAnotherUser,
}

fn link(root: &OwnedFd, path: &Path, user: u32) -> Result<Link, Errno> {
    let stat = match statat(root, path, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(Link::Nothing),
        stat => stat?,
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        return Ok(Link::No);
    }
    if stat.st_uid != 0 && stat.st_uid != user {
        return Ok(Link::OfAnotherUser);
    }
    let target = readlinkat(root, path, Vec::new())?;
    target.into_string().map(|target| Link::To(target.into())).map_err(|_| Errno::ILSEQ)
}

/// The components of a path, the first one last.
fn parts(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|part| PathBuf::from(part.as_os_str())).collect()
}

fn machine_path(below: &Path, asked: &MachinePath) -> Result<MachinePath, MachineError> {
    let unusable = |_| MachineError::io(format!("follow the links of {asked}"), Errno::INVAL);
    MachinePath::new(format!("/{}", below.display())).map_err(unusable)
}
