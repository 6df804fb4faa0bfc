//! Unpacks a container image: from an archive in a folder, which is a tar file, plain or compressed, of an OCI layout or as
//! Docker saves images; or from layers that are files.
//!
//! Neither is trusted: each layer is unpacked by [`unpack`], in its own folder, and then moved over those before
//! it. What is named by a digest has to have that digest.

mod layers;
mod manifest;

use capstan_plan::{Digest, MachinePath};
use rustix::fs::{Dir, Mode, OFlags, openat};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::fd::OwnedFd;

use super::files::{self, cannot};
use super::real_path;
use super::unpack;
use super::walk::existing_parent;
use crate::image::ImageReference;
use crate::machine::MachineError;
use layers::{Layer, Source};

/// Ends of the names of archives.
const ARCHIVES: [&str; 5] = [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"];

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A tar file that is read again for each file of it.
struct Archive<F>(F);

impl<F: Fn() -> Result<File, MachineError>> Source for Archive<F> {
    fn read<T>(
        &self,
        name: &str,
        look: impl FnOnce(&mut dyn Read) -> Result<T, MachineError>,
    ) -> Result<Option<T>, MachineError> {
        let mut look = Some(look);
        scan((self.0)()?, |found, content| match look.take_if(|_| found == name) {
            Some(look) => look(content).map(Some),
            None => Ok(None),
        })
    }
}

/// A folder with files that are named by their digests.
struct Blobs<'a> {
    root: &'a OwnedFd,
    folder: &'a MachinePath,
}

impl Source for Blobs<'_> {
    fn read<T>(
        &self,
        name: &str,
        look: impl FnOnce(&mut dyn Read) -> Result<T, MachineError>,
    ) -> Result<Option<T>, MachineError> {
        let path = MachinePath::new(format!("{}/{name}", self.folder)).map_err(damaged)?;
        if files::inspect(self.root, &path)? == crate::machine::Found::Nothing {
            return Ok(None);
        }
        look(&mut files::open(self.root, &path)?).map(Some)
    }
}

/// Unpacks an image into an existing folder, from the first archive in `images` that contains it. `false`: none does.
pub(super) fn unpack_image(
    root: &OwnedFd,
    wanted: &ImageReference,
    images: &MachinePath,
    into: &MachinePath,
    owner: (u32, u32),
) -> Result<bool, MachineError> {
    for path in archives(root, images)? {
        let archive = Archive(|| files::open(root, &path));
        if let Some(found) = manifest::find(&archive, wanted)? {
            return layers::unpack(root, &archive, &found, into, owner).map(|()| true);
        }
    }
    Ok(false)
}

/// Unpacks layers into an existing folder, the lowest first. They are files in `blobs`, named by their digests.
pub(super) fn unpack_layers(
    root: &OwnedFd,
    digests: &[Digest],
    blobs: &MachinePath,
    into: &MachinePath,
    owner: (u32, u32),
) -> Result<(), MachineError> {
    let layers: Vec<Layer> = digests.iter().copied().map(Layer::blob).collect();
    layers::unpack(root, &Blobs { root, folder: blobs }, &layers, into, owner)
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
