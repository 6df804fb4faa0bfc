//! Compares a folder with the archive that it was unpacked from. Reads only.
//!
//! Additional files in the folder are ignored: programs may have written them.

use capstan_plan::{Artifact, Unpack};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use tar::{Archive, Entry, EntryType};

use super::cancel::Flag;
use super::files::cannot;
use super::install::{Checked, PIECE, metadata};
use super::unpack::{inside, target};
use super::walk::{existing_parent, look};
use crate::machine::{Found, MachineError};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Compares a folder with the archive that was downloaded for it. `None` if the digest of the archive does not match.
pub(super) fn tree(
    root: &OwnedFd,
    artifact: &Artifact,
    fetched: &Path,
    sort: Unpack,
    flag: &Flag,
) -> Result<Option<bool>, MachineError> {
    let path = &artifact.path;
    let folder = existing_parent(root, path)?;
    let found = look(&folder, path.name()).map_err(cannot("look at", path))?;
    if found != (Found::Directory { metadata: metadata(artifact) }) {
        return Ok(Some(false));
    }
    let source = match File::open(fetched) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(cannot("open what was fetched for", path))?,
    };
    let tree = openat(&folder, path.name(), FOLDER, Mode::empty()).map_err(cannot("open", path))?;
    let owner = (artifact.owner, artifact.group);
    let source = Checked::new(source, flag);
    let (is_same, mut source) = match sort {
        Unpack::TarGz => {
            let mut gz = flate2::read::MultiGzDecoder::new(BufReader::with_capacity(PIECE, source));
            (compare(&tree, &mut gz, owner), gz.into_inner().into_inner())
        }
        Unpack::TarZst => {
            let mut buffered = BufReader::with_capacity(PIECE, source);
            let is_same = match ruzstd::decoding::StreamingDecoder::new(&mut buffered) {
                Ok(mut zst) => compare(&tree, &mut zst, owner),
                Err(error) => Err(io::Error::other(error)),
            };
            (is_same, buffered.into_inner())
        }
    };
    if matches!(is_same, Ok(false)) {
        return Ok(Some(false));
    }
    flag.check().map_err(cannot("read what was fetched for", path))?;
    io::copy(&mut source, &mut io::sink()).map_err(cannot("read what was fetched for", path))?;
    let is_right = source.finish() == artifact.sha256;
    Ok(is_same.ok().filter(|_| is_right))
}

fn compare(tree: &OwnedFd, source: &mut impl Read, owner: (u32, u32)) -> io::Result<bool> {
    let mut archive = Archive::new(source);
    let mut folders = BTreeSet::new();
    for entry in archive.entries()? {
        if !is_there(tree, &mut entry?, owner, &mut folders)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_there(
    tree: &OwnedFd,
    entry: &mut Entry<'_, impl Read>,
    owner: (u32, u32),
    folders: &mut BTreeSet<PathBuf>,
) -> io::Result<bool> {
    let path = inside(&entry.path()?).map_err(io::Error::other)?;
    let (kind, mode) = (entry.header().entry_type(), entry.header().mode()? & 0o777);
    let Some(name) = path.file_name() else { return Ok(true) };
    let Some(folder) = open(tree, path.parent().unwrap_or(Path::new(""))) else { return Ok(false) };
    let Ok(stat) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(false) };
    let found = FileType::from_raw_mode(stat.st_mode);
    let is_owned = (stat.st_uid, stat.st_gid) == owner;
    let has_mode = stat.st_mode & 0o7777 == mode;
    Ok(match kind {
        // Of two entries for one folder the first says what its mode is.
        EntryType::Directory => {
            found == FileType::Directory && is_owned && (!folders.insert(path) || has_mode)
        }
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            found == FileType::RegularFile
                && is_owned
                && has_mode
                && u64::try_from(stat.st_size).ok() == Some(entry.size())
                && is_same(&folder, name, &stat, entry)?
        }
        EntryType::Symlink => {
            let wanted = target(entry).map_err(io::Error::other)?;
            found == FileType::Symlink
                && readlinkat(&folder, name, Vec::new())
                    .is_ok_and(|link| link.as_bytes() == wanted.as_os_str().as_bytes())
        }
        EntryType::Link => {
            let wanted = inside(&target(entry).map_err(io::Error::other)?).map_err(io::Error::other)?;
            let other = open(tree, wanted.parent().unwrap_or(Path::new("")));
            let other = other
                .zip(wanted.file_name())
                .and_then(|(folder, name)| statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok());
            other.is_some_and(|other| (other.st_dev, other.st_ino) == (stat.st_dev, stat.st_ino))
        }
        _ => true,
    })
}

/// The folder at a path below the tree, if it exists. Links are not followed.
fn open(tree: &OwnedFd, path: &Path) -> Option<OwnedFd> {
    let mut folder = tree.try_clone().ok()?;
    for part in path.components() {
        folder = openat(&folder, part.as_os_str(), FOLDER, Mode::empty()).ok()?;
    }
    Some(folder)
}

fn is_same(folder: &OwnedFd, name: &OsStr, stat: &Stat, content: &mut impl Read) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = openat(folder, name, flags, Mode::empty()) else { return Ok(false) };
    if fstat(&file)?.st_ino != stat.st_ino {
        return Ok(false);
    }
    let mut file = BufReader::with_capacity(PIECE, File::from(file));
    let (mut ours, mut theirs) = (vec![0; 8192], vec![0; 8192]);
    loop {
        let length = content.read(&mut ours)?;
        if length == 0 {
            return Ok(file.read(&mut theirs)? == 0);
        }
        if file.read_exact(&mut theirs[..length]).is_err() || ours[..length] != theirs[..length] {
            return Ok(false);
        }
    }
}
