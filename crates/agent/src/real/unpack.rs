//! Unpacks an archive into a folder.
//!
//! The plan names the archive by its digest. It is still not trusted: no path and no link may lead out of the folder,
//! only files, folders and links are created, and their number and size are limited.

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Uid, chownat, fchmod, fchown, linkat, mkdirat, openat, readlinkat, statat,
    symlinkat,
};
use rustix::io::Errno;
use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use tar::{Archive, Entry, EntryType};

use crate::machine::MachineError;

/// Largest number of entries in an archive.
const ENTRIES: usize = 100_000;
/// Largest total size of its files, in bytes.
const BYTES: u64 = 16 * 1024 * 1024 * 1024;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn refuse(what: &Path, why: &str) -> MachineError {
    MachineError::Archive(format!("{:?} {why}", what.display().to_string()))
}

fn cannot(what: &Path) -> impl FnOnce(io::Error) -> MachineError {
    let what = format!("unpack {:?}", what.display().to_string());
    move |source| MachineError::Io { what, source }
}

/// Largest size of what precedes a file in an archive: its header, and long names and attributes of it, which are read into
/// memory.
const HEADERS: u64 = 1024 * 1024;

/// Most folders above each other.
const DEPTH: usize = 255;

/// How much may still be unpacked.
pub(super) struct Budget {
    entries: usize,
    bytes: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { entries: ENTRIES, bytes: BYTES }
    }
}

/// Counts what is read, and ends with an error where the count does.
struct Metered<'a, R> {
    source: R,
    left: &'a Cell<u64>,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 && !buffer.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a header in it is too large"));
        }
        let length = self.source.read(&mut buffer[..most])?;
        self.left.set(left.saturating_sub(length as u64));
        Ok(length)
    }
}

/// Unpacks everything. Modes of folders are set at the end, because a read-only folder must be filled first.
pub(super) fn unpack(tree: &OwnedFd, source: &mut impl Read, owner: (u32, u32)) -> Result<(), MachineError> {
    unpack_within(tree, source, owner, &mut Budget::default())
}

/// The same, for one of several archives that have a budget together.
pub(super) fn unpack_within(
    tree: &OwnedFd,
    source: &mut impl Read,
    owner: (u32, u32),
    budget: &mut Budget,
) -> Result<(), MachineError> {
    let mut unpacker = Unpacker { tree, owner, budget, folders: Vec::new(), links: Vec::new() };
    let left = Cell::new(HEADERS);
    let mut archive = Archive::new(Metered { source, left: &left });
    let mut entries = archive.entries().map_err(unreadable)?;
    loop {
        left.set(HEADERS);
        let Some(entry) = entries.next() else { break };
        // What follows is the content of the entry, which is bounded by its size.
        left.set(u64::MAX);
        unpacker.entry(&mut entry.map_err(unreadable)?)?;
    }
    unpacker.finish()
}

/// Largest number of links that are followed, as in the kernel.
const LINKS: usize = 40;

/// The components of a path, the first one last.
fn parts(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|part| PathBuf::from(part.as_os_str())).collect()
}

/// An error of the archive, or of the disk it is read from.
fn unreadable(error: io::Error) -> MachineError {
    match error.kind() {
        io::ErrorKind::TimedOut => MachineError::Io { what: "unpack".to_owned(), source: error },
        _ => MachineError::Archive(error.to_string()),
    }
}

struct Unpacker<'a> {
    tree: &'a OwnedFd,
    owner: (u32, u32),
    budget: &'a mut Budget,
    folders: Vec<(PathBuf, u32)>,
    links: Vec<PathBuf>,
}

impl Unpacker<'_> {
    fn entry(&mut self, entry: &mut Entry<'_, impl Read>) -> Result<(), MachineError> {
        self.budget.entries = self
            .budget
            .entries
            .checked_sub(1)
            .ok_or_else(|| MachineError::Archive(format!("it holds more than {ENTRIES} things")))?;
        let kind = entry.header().entry_type();
        if matches!(kind, EntryType::XGlobalHeader) {
            return Ok(());
        }
        let named = entry.path().map_err(unreadable)?.into_owned();
        let path = inside(&named)?;
        let mode = entry.header().mode().map_err(unreadable)? & 0o777;
        let Some(name) = path.file_name().map(OsStr::to_owned) else {
            // The folder itself: it is the plan that says whose it is.
            return if kind.is_dir() { Ok(()) } else { Err(refuse(&named, "has no name")) };
        };
        let folder = self.make_folders(path.parent().unwrap_or(Path::new("")))?;
        match kind {
            EntryType::Directory => {
                make_folder(&folder, &name, self.owner).map_err(cannot(&path))?;
                self.folders.push((path, mode));
                Ok(())
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let size = entry.size();
                self.budget.bytes = self
                    .budget
                    .bytes
                    .checked_sub(size)
                    .ok_or_else(|| MachineError::Archive(format!("it holds more than {BYTES} bytes")))?;
                self.file(&folder, &name, entry, size, mode, &path)
            }
            EntryType::Symlink => {
                let target = target(entry)?;
                stays_inside(&path, &target)?;
                symlinkat(&target, &folder, &name).map_err(|error| twice(&path, error))?;
                let (owner, group) = (Uid::from_raw(self.owner.0), Gid::from_raw(self.owner.1));
                chownat(&folder, &name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(|error| cannot(&path)(error.into()))?;
                // Where it leads depends on what comes later, also on other links.
                self.links.push(path);
                Ok(())
            }
            EntryType::Link => {
                let target = inside(&target(entry)?)?;
                self.link(&folder, &name, &target, &path)
            }
            _ => Err(refuse(&named, "is neither a file nor a folder nor a link")),
        }
    }

    fn file(
        &self,
        folder: &OwnedFd,
        name: &OsStr,
        content: &mut impl Read,
        size: u64,
        mode: u32,
        path: &Path,
    ) -> Result<(), MachineError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            openat(folder, name, flags, Mode::from_raw_mode(0o600)).map_err(|error| twice(path, error))?;
        let mut file = File::from(file);
        let written = io::copy(&mut content.take(size), &mut file).map_err(cannot(path))?;
        if written != size {
            return Err(refuse(path, "is cut off"));
        }
        own(&file, self.owner, mode).map_err(cannot(path))
    }

    fn link(&self, folder: &OwnedFd, name: &OsStr, target: &Path, path: &Path) -> Result<(), MachineError> {
        let above = target.parent().unwrap_or(Path::new(""));
        let (Some(to), Some(from)) = (target.file_name(), self.find(above)?) else {
            return Err(refuse(path, "is a link to nothing that came before it"));
        };
        let is_file = statat(&from, to, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file());
        if !is_file {
            return Err(refuse(path, "is a link to nothing that came before it"));
        }
        linkat(&from, to, folder, name, AtFlags::empty()).map_err(|error| twice(path, error))
    }

    /// The folder at a path, if it exists.
    fn find(&self, path: &Path) -> Result<Option<OwnedFd>, MachineError> {
        let mut folder = self.tree.try_clone().map_err(cannot(path))?;
        for part in path.components() {
            folder = match openat(&folder, part.as_os_str(), FOLDER, Mode::empty()) {
                Ok(next) => next,
                Err(_) => return Ok(None),
            };
        }
        Ok(Some(folder))
    }

    /// The folder at a path. Missing parents are created; a link in a parent is not followed.
    fn make_folders(&self, path: &Path) -> Result<OwnedFd, MachineError> {
        let mut folder = self.tree.try_clone().map_err(cannot(path))?;
        for part in path.components() {
            folder = match openat(&folder, part.as_os_str(), FOLDER, Mode::empty()) {
                Err(Errno::NOENT) => {
                    make_folder(&folder, part.as_os_str(), self.owner).map_err(cannot(path))?
                }
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    return Err(refuse(path, "goes through something that is no folder"));
                }
                next => next.map_err(|error| cannot(path)(error.into()))?,
            };
        }
        Ok(folder)
    }

    /// Follows a symbolic link component by component, with every link on the way, and rejects it if it leads out of
    /// the folder. A link to a missing path is accepted: nothing is created in the folder later. Links that cannot be
    /// followed are resolved by their names.
    fn leads_inside(&self, link: &Path) -> Result<(), MachineError> {
        let out = || refuse(link, "is a link that leads out of the folder it belongs in");
        let mut at: Vec<PathBuf> = Vec::new();
        let mut left: Vec<PathBuf> = parts(link);
        let mut followed = 0;
        while let Some(part) = left.pop() {
            match part.components().next() {
                None | Some(Component::CurDir) => continue,
                Some(Component::ParentDir) => {
                    at.pop().ok_or_else(out)?;
                    continue;
                }
                Some(Component::RootDir | Component::Prefix(_)) => return Err(out()),
                Some(Component::Normal(_)) => {}
            }
            let folder: PathBuf = at.iter().collect();
            let target = match self.find(&folder)? {
                Some(folder) => readlinkat(&folder, &part, Vec::new()).ok(),
                None => None,
            };
            match target {
                Some(target) => {
                    followed += 1;
                    if followed > LINKS {
                        return Err(refuse(link, "is a link that leads from link to link without an end"));
                    }
                    left.extend(parts(Path::new(OsStr::from_bytes(target.as_bytes()))));
                }
                None => at.push(part),
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<(), MachineError> {
        for path in &self.links {
            self.leads_inside(path)?;
        }
        for (path, mode) in self.folders.iter().rev() {
            let folder = self.find(path)?.ok_or_else(|| refuse(path, "was a folder and is none any more"))?;
            fchmod(&folder, Mode::from_raw_mode(*mode)).map_err(|error| cannot(path)(error.into()))?;
        }
        Ok(())
    }
}

fn make_folder(above: &OwnedFd, name: &OsStr, owner: (u32, u32)) -> io::Result<OwnedFd> {
    match mkdirat(above, name, Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let folder = openat(above, name, FOLDER, Mode::empty())?;
    own(&folder, owner, 0o755)?;
    Ok(folder)
}

fn own(file: impl std::os::fd::AsFd, (owner, group): (u32, u32), mode: u32) -> io::Result<()> {
    fchown(&file, Some(Uid::from_raw(owner)), Some(Gid::from_raw(group)))?;
    Ok(fchmod(&file, Mode::from_raw_mode(mode))?)
}

fn twice(path: &Path, error: Errno) -> MachineError {
    match error {
        Errno::EXIST => refuse(path, "is in it twice"),
        error => cannot(path)(error.into()),
    }
}

pub(super) fn target(entry: &Entry<'_, impl Read>) -> Result<PathBuf, MachineError> {
    let target = entry.link_name().map_err(unreadable)?;
    target.map(Cow::into_owned).ok_or_else(|| MachineError::Archive("a link leads nowhere".to_owned()))
}

/// A path of the archive, relative to its folder: empty for the folder itself.
pub(super) fn inside(path: &Path) -> Result<PathBuf, MachineError> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) if !name.as_bytes().contains(&0) => plain.push(name),
            _ => return Err(refuse(path, "leads out of the folder it belongs in")),
        }
    }
    if plain.components().count() > DEPTH {
        return Err(MachineError::Archive(format!("it has more than {DEPTH} folders above each other")));
    }
    Ok(plain)
}

/// Whether a symbolic link at this path stays in the folder by its names alone. Its real target is checked at the end.
fn stays_inside(path: &Path, target: &Path) -> Result<(), MachineError> {
    let mut depth = path.components().count().saturating_sub(1);
    for part in target.components() {
        let next = match part {
            Component::CurDir => Some(depth),
            Component::Normal(_) => Some(depth + 1),
            Component::ParentDir => depth.checked_sub(1),
            Component::RootDir | Component::Prefix(_) => None,
        };
        depth = next.ok_or_else(|| refuse(path, "is a link that leads out of the folder it belongs in"))?;
    }
    Ok(())
}
