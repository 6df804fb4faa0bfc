//! Installs artifacts from the cache: as a file, or as a folder that an archive is unpacked into.

use capstan_plan::{Artifact, Digest, Hasher, MachinePath, Unpack};
use rustix::fs::{Mode, OFlags, RenameFlags, fsync, mkdirat, openat, renameat, renameat_with, syncfs};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use super::cancel::Flag;
use super::files::{cannot, drop_if_there, own, temporary, wrong};
use super::tree;
use super::unpack::unpack;
use super::walk::{existing_parent, look};
use crate::machine::{Found, MachineError, Metadata};

/// Bytes that are copied at once.
pub(super) const PIECE: usize = 128 * 1024;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

pub(super) fn metadata(artifact: &Artifact) -> Metadata {
    Metadata { mode: artifact.mode.bits(), owner: artifact.owner, group: artifact.group }
}

/// Whether a plain file is the artifact already, so that it need not be downloaded.
pub(super) fn is_there(root: &OwnedFd, artifact: &Artifact, flag: &Flag) -> Result<bool, MachineError> {
    let path = &artifact.path;
    let folder = existing_parent(root, path)?;
    let right = Found::File { metadata: metadata(artifact), size: artifact.size };
    if artifact.unpack.is_some() || look(&folder, path.name()).map_err(cannot("look at", path))? != right {
        return Ok(false);
    }
    let mut file = super::files::open(root, path)?;
    let found = copy(&mut file, &mut io::sink(), flag).map_err(cannot("read", path))?;
    Ok(found.finish() == artifact.sha256)
}

/// Installs a downloaded artifact.
pub(super) fn put(
    root: &OwnedFd,
    artifact: &Artifact,
    fetched: &Path,
    flag: &Flag,
) -> Result<(), MachineError> {
    let path = &artifact.path;
    let folder = existing_parent(root, path)?;
    let mut source = File::open(fetched).map_err(cannot("open what was fetched for", path))?;
    match artifact.unpack {
        None => put_file(&folder, artifact, &mut source, flag),
        Some(sort) => put_tree(&folder, artifact, sort, source, flag),
    }
}

fn put_file(
    folder: &OwnedFd,
    artifact: &Artifact,
    source: &mut File,
    flag: &Flag,
) -> Result<(), MachineError> {
    let path = &artifact.path;
    let temporary = temporary(path);
    drop_if_there(folder, &temporary).map_err(cannot("make room beside", path))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut write = || -> io::Result<bool> {
        let mut file = File::from(openat(folder, &temporary, flags, Mode::from_raw_mode(0o600))?);
        if copy(source, &mut file, flag)?.finish() != artifact.sha256 {
            return Ok(false);
        }
        own(&file, metadata(artifact))?;
        file.sync_all()?;
        renameat(folder, &temporary, folder, path.name())?;
        fsync(folder)?;
        Ok(true)
    };
    let written = write();
    if !matches!(written, Ok(true)) {
        let _ = drop_if_there(folder, &temporary);
    }
    match written {
        Ok(true) => Ok(()),
        // Somebody has changed it since it was fetched; without it the next attempt fetches it again.
        Ok(false) => Err(MachineError::io(format!("write {path}"), io::Error::other(CHANGED))),
        Err(error) => Err(cannot("write", path)(error)),
    }
}

/// Verifies a downloaded artifact.
pub(super) const CHANGED: &str = "what was fetched has changed on the disk since";

fn put_tree(
    folder: &OwnedFd,
    artifact: &Artifact,
    sort: Unpack,
    source: File,
    flag: &Flag,
) -> Result<(), MachineError> {
    let path = &artifact.path;
    let temporary = temporary(path);
    let clean = || tree::remove(folder, &temporary).map_err(cannot("make room beside", path));
    clean()?;
    let unpacked = fill(folder, &temporary, artifact, sort, source, flag);
    if let Err(error) = unpacked.and_then(|()| swap(folder, &temporary, path)) {
        let _ = clean();
        return Err(error);
    }
    // The one that was there before, if there was one.
    clean()?;
    fsync(folder).map_err(cannot("sync the folder of", path))
}

fn fill(
    folder: &OwnedFd,
    temporary: &str,
    artifact: &Artifact,
    sort: Unpack,
    source: File,
    flag: &Flag,
) -> Result<(), MachineError> {
    let path = &artifact.path;
    mkdirat(folder, temporary, Mode::from_raw_mode(0o700)).map_err(cannot("make a folder beside", path))?;
    let tree =
        openat(folder, temporary, FOLDER, Mode::empty()).map_err(cannot("open a folder beside", path))?;
    let owner = (artifact.owner, artifact.group);
    let source = Checked::new(source, flag);
    let mut source = match sort {
        Unpack::TarGz => {
            let mut gz = flate2::read::MultiGzDecoder::new(BufReader::with_capacity(PIECE, source));
            unpack(&tree, &mut gz, owner)?;
            gz.into_inner().into_inner()
        }
        Unpack::TarZst => {
            let mut buffered = BufReader::with_capacity(PIECE, source);
            let mut zst = ruzstd::decoding::StreamingDecoder::new(&mut buffered)
                .map_err(|error| MachineError::Archive(error.to_string()))?;
            unpack(&tree, &mut zst, owner)?;
            drop(zst);
            buffered.into_inner()
        }
    };
    // Behind the end of the archive there may be more; what was unpacked counts only if all of it is right.
    io::copy(&mut source, &mut io::sink()).map_err(cannot("read what was fetched for", path))?;
    if source.finish() != artifact.sha256 {
        return Err(MachineError::io(format!("unpack {path}"), io::Error::other(CHANGED)));
    }
    own(&tree, metadata(artifact)).map_err(cannot("set the owner of", path))?;
    syncfs(&tree).map_err(cannot("sync", path))
}

/// Moves a folder to its path. An existing folder is exchanged with it.
fn swap(folder: &OwnedFd, temporary: &str, path: &MachinePath) -> Result<(), MachineError> {
    let place = path.name();
    match look(folder, place).map_err(cannot("look at", path))? {
        Found::Nothing => renameat_with(folder, temporary, folder, place, RenameFlags::NOREPLACE)
            .map_err(cannot("put in its place", path))?,
        Found::Directory { .. } => {
            match renameat_with(folder, temporary, folder, place, RenameFlags::EXCHANGE) {
                // A file system that cannot: then there is nothing for a moment.
                Err(Errno::INVAL | Errno::XDEV | Errno::NOSYS) => {
                    tree::remove(folder, place).map_err(cannot("remove", path))?;
                    renameat(folder, temporary, folder, place).map_err(cannot("put in its place", path))?;
                }
                changed => changed.map_err(cannot("put in its place", path))?,
            }
        }
        found => return Err(wrong(path, found, "a folder")),
    }
    fsync(folder).map_err(cannot("sync the folder of", path))
}

/// A reader that computes the digest of what it has read.
pub(super) struct Checked<'a> {
    source: File,
    hasher: Hasher,
    flag: &'a Flag,
}

impl<'a> Checked<'a> {
    pub(super) fn new(source: File, flag: &'a Flag) -> Self {
        Self { source, hasher: Hasher::default(), flag }
    }

    /// The digest of all that was read.
    pub(super) fn finish(self) -> Digest {
        self.hasher.finish()
    }
}

impl Read for Checked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.flag.check()?;
        let length = self.source.read(buffer)?;
        self.hasher.update(&buffer[..length]);
        Ok(length)
    }
}

fn copy(source: &mut File, to: &mut impl Write, flag: &Flag) -> io::Result<Hasher> {
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; PIECE];
    loop {
        flag.check()?;
        match source.read(&mut buffer)? {
            0 => return Ok(hasher),
            length => {
                hasher.update(&buffer[..length]);
                to.write_all(&buffer[..length])?;
            }
        }
    }
}
