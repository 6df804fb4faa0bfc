//! A stamp of a file or a folder that changes whenever it is changed, computed without reading content.
//!
//! It contains the change time (ctime) of the inode, which only the kernel sets. So it also changes if a program sets
//! back the modification time of a file.

use capstan_plan::{Digest, Hasher, MachinePath};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;

use super::cancel::Flag;
use super::files::cannot;
use super::walk::parent;
use crate::machine::MachineError;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The stamp of a path; `None` if it does not exist.
pub(super) fn of(root: &OwnedFd, path: &MachinePath, flag: &Flag) -> Result<Option<Digest>, MachineError> {
    let Some(folder) = parent(root, path)? else { return Ok(None) };
    let mut hasher = Hasher::default();
    let name = CString::new(path.name()).map_err(cannot("look at", path))?;
    match add(&folder, &name, &mut hasher, flag) {
        Ok(()) => Ok(Some(hasher.finish())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot("look at", path)(error)),
    }
}

fn add(folder: &OwnedFd, name: &CStr, hasher: &mut Hasher, flag: &Flag) -> std::io::Result<()> {
    flag.check()?;
    let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    hasher.update(name.to_bytes_with_nul());
    update(hasher, &stat);
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Ok(());
    }
    let inner = match openat(folder, name, FOLDER, Mode::empty()) {
        // It became something else meanwhile, which the next look shows.
        Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let mut names = Vec::new();
    for entry in Dir::read_from(&inner)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    names.iter().try_for_each(|name| match add(&inner, name, hasher, flag) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        added => added,
    })
}

fn update(hasher: &mut Hasher, stat: &Stat) {
    let numbers = [
        i128::from(stat.st_dev),
        i128::from(stat.st_ino),
        i128::from(stat.st_mode),
        i128::from(stat.st_uid),
        i128::from(stat.st_gid),
        i128::from(stat.st_size),
        i128::from(stat.st_mtime),
        i128::from(stat.st_mtime_nsec),
        i128::from(stat.st_ctime),
        i128::from(stat.st_ctime_nsec),
    ];
    numbers.iter().for_each(|number| hasher.update(&number.to_be_bytes()));
}
