//! Unpacks the layers of an image over each other.

use capstan_plan::{Digest, Hasher, MachinePath};
use rustix::fs::{AtFlags, Dir, FileType, Mode, mkdirat, openat, renameat, statat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use super::unpack::{Budget, unpack_within};
use super::{FOLDER, damaged, decompressed};
use crate::machine::MachineError;
use crate::real::files::{cannot, own};
use crate::real::tree;
use crate::real::walk::existing_parent;

/// Beginning of the name of a file that removes another one of the layers below.
const REMOVED: &[u8] = b".wh.";

/// Name of a file that removes everything of the layers below from its folder.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// A layer: a file of the source, and its digest if it is named by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    path: String,
    digest: Option<Digest>,
}

impl Layer {
    /// A file of an archive.
    pub(super) fn new(path: &str) -> Self {
        let digest = path.strip_prefix("blobs/sha256/").and_then(|hex| hex.parse().ok());
        Self { path: path.to_owned(), digest }
    }

    /// A file that is named by its digest.
    pub(super) fn blob(digest: Digest) -> Self {
        Self { path: digest.to_string(), digest: Some(digest) }
    }
}

/// Where the files of an image are.
pub(super) trait Source {
    /// Reads a file; `None` if it is missing.
    fn read<T>(
        &self,
        name: &str,
        look: impl FnOnce(&mut dyn Read) -> Result<T, MachineError>,
    ) -> Result<Option<T>, MachineError>;
}

/// Unpacks the layers. Their number of files and their size are limited together.
pub(super) fn unpack(
    root: &OwnedFd,
    source: &impl Source,
    layers: &[Layer],
    into: &MachinePath,
    owner: (u32, u32),
) -> Result<(), MachineError> {
    let above = existing_parent(root, into)?;
    let target = openat(&above, into.name(), FOLDER, Mode::empty()).map_err(cannot("open", into))?;
    let part = format!("{}.layer", into.name());
    let mut budget = Budget::default();
    for layer in layers {
        let clean = || tree::remove(&above, &part).map_err(cannot("clean up beside", into));
        clean()?;
        mkdirat(&above, &part, Mode::from_raw_mode(0o700)).map_err(cannot("make a folder beside", into))?;
        let folder =
            openat(&above, &part, FOLDER, Mode::empty()).map_err(cannot("open a folder beside", into))?;
        let digest = source.read(&layer.path, |content| {
            let mut checked = Checked { source: content, hasher: Hasher::default() };
            {
                let mut plain = decompressed(&mut checked).map_err(damaged)?;
                unpack_within(&folder, &mut plain, owner, &mut budget)?;
            }
            io::copy(&mut checked, &mut io::sink()).map_err(damaged)?;
            Ok(checked.hasher.finish())
        });
        let done = digest
            .and_then(|found| verify(layer, found))
            .and_then(|()| move_over(&folder, &target).map_err(cannot("put the layers together in", into)));
        clean()?;
        done?;
    }
    Ok(())
}

fn verify(layer: &Layer, found: Option<Digest>) -> Result<(), MachineError> {
    match (found, layer.digest) {
        (None, _) => Err(damaged(format!("{} is missing", layer.path))),
        (Some(found), Some(wanted)) if found != wanted => {
            Err(damaged(format!("{} has another digest", layer.path)))
        }
        _ => Ok(()),
    }
}

struct Checked<R> {
    source: R,
    hasher: Hasher,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(buffer)?;
        self.hasher.update(&buffer[..length]);
        Ok(length)
    }
}

/// Moves what is in a folder to another one, over what is there.
fn move_over(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    let names = names(from)?;
    let (removals, others): (Vec<_>, Vec<_>) =
        names.iter().partition(|name| name.to_bytes().starts_with(REMOVED));
    for removal in removals {
        if removal.to_bytes() == OPAQUE {
            for below in self::names(to)? {
                remove(to, &below)?;
            }
        } else {
            remove(to, &CString::new(&removal.to_bytes()[REMOVED.len()..])?)?;
        }
    }
    for name in others {
        let stat = statat(from, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            remove(to, name)?;
            renameat(from, name.as_c_str(), to, name.as_c_str())?;
            continue;
        }
        match openat(to, name.as_c_str(), FOLDER, Mode::empty()) {
            Ok(_) => {}
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                remove(to, name)?;
                mkdirat(to, name.as_c_str(), Mode::from_raw_mode(0o700))?;
            }
            Err(error) => return Err(error.into()),
        }
        let below = openat(from, name.as_c_str(), FOLDER, Mode::empty())?;
        let there = openat(to, name.as_c_str(), FOLDER, Mode::empty())?;
        move_over(&below, &there)?;
        let metadata =
            crate::machine::Metadata { mode: stat.st_mode & 0o777, owner: stat.st_uid, group: stat.st_gid };
        own(&there, metadata)?;
    }
    Ok(())
}

fn names(folder: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        if name.as_c_str() != c"." && name.as_c_str() != c".." {
            names.push(name);
        }
    }
    Ok(names)
}

fn remove(folder: &OwnedFd, name: &CStr) -> io::Result<()> {
    let name = name.to_str().map_err(|_| io::Error::from(io::ErrorKind::InvalidFilename))?;
    if name.is_empty() || name == "." || name == ".." {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    tree::remove(folder, name)
}
