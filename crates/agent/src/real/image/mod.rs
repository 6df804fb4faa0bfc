//! Unpacks a container image from an archive in a folder: a tar file, plain or compressed, of an OCI layout or as Docker
//! saves images.
//!
//! The archive is not trusted: each layer is unpacked by [`unpack`], in its own folder, and then moved over those before
//! it. What the archive names by a digest has to have that digest.

mod layers;
mod manifest;
mod reference;

use capstan_plan::MachinePath;
use rustix::fs::{Dir, Mode, OFlags, openat};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::fd::OwnedFd;

use super::files::{self, cannot};
use super::real_path;
use super::unpack;
use super::walk::existing_parent;
use crate::machine::MachineError;
use reference::Reference;

/// Ends of the names of archives.
const ARCHIVES: [&str; 5] = [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"];

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Unpacks an image into an existing folder, from the first archive in `images` that contains it.
pub(super) fn unpack_image(
    root: &OwnedFd,
    reference: &str,
    images: &MachinePath,
    into: &MachinePath,
    owner: (u32, u32),
) -> Result<(), MachineError> {
    let missing = |why: &'static str| {
        MachineError::io(
            format!("find the image {reference} in {images}"),
            io::Error::new(io::ErrorKind::NotFound, why),
        )
    };
    let wanted = Reference::parse(reference).ok_or_else(|| missing("that is not the name of an image"))?;
    for archive in archives(root, images)? {
        let open = || files::open(root, &archive);
        if let Some(found) = manifest::find(&open, &wanted)? {
            return layers::unpack(root, &open, &found, into, owner);
        }
    }
    Err(missing("no archive there contains it, and images are not pulled from registries"))
}

/// The archives in a folder, in lexical order.
fn archives(root: &OwnedFd, folder: &MachinePath) -> Result<Vec<MachinePath>, MachineError> {
    let folder = real_path::of(root, folder)?;
    if files::inspect(root, &folder)? == crate::machine::Found::Nothing {
        return Ok(Vec::new());
    }
    let above = existing_parent(root, &folder)?;
    let opened = openat(&above, folder.name(), FOLDER, Mode::empty()).map_err(cannot("open", &folder))?;
    let mut found = Vec::new();
    for entry in Dir::read_from(&opened).map_err(cannot("read", &folder))? {
        let entry = entry.map_err(cannot("read", &folder))?;
        if let Ok(name) = entry.file_name().to_str()
            && ARCHIVES.iter().any(|end| name.ends_with(end))
            && let Ok(path) = MachinePath::new(format!("{folder}/{name}"))
        {
            found.push(real_path::of(root, &path)?);
        }
    }
    found.sort();
    Ok(found)
}

/// An error of the archive.
fn damaged(error: impl std::fmt::Display) -> MachineError {
    MachineError::Archive(error.to_string())
}

/// Reads what may be compressed, by its first bytes.
fn decompressed<'a>(source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut source = BufReader::with_capacity(128 * 1024, source);
    Ok(match source.fill_buf()? {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(source)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Box::new(ruzstd::decoding::StreamingDecoder::new(source).map_err(io::Error::other)?)
        }
        _ => Box::new(source),
    })
}

/// Looks at the files of an archive, one after the other, until there is a result.
fn scan<T>(
    archive: File,
    mut look: impl FnMut(&str, &mut dyn Read) -> Result<Option<T>, MachineError>,
) -> Result<Option<T>, MachineError> {
    let mut archive = tar::Archive::new(decompressed(archive).map_err(damaged)?);
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let path = entry.path().map_err(damaged)?.to_string_lossy().into_owned();
        let name = path.trim_start_matches("./");
        if let Some(found) = look(name, &mut entry)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
