//! Finds an image in an archive.

use capstan_plan::Digest;
use serde::Deserialize;
use std::fs::File;
use std::io::Read;

use super::layers::{Layer, Source as _};
use super::{Archive, damaged, scan};
use crate::image::{DEPTH, Descriptor, ImageReference, LARGEST_MANIFEST, Manifest};
use crate::machine::MachineError;

/// `manifest.json`, as Docker writes it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Saved {
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// `index.json` of an OCI layout.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Index {
    manifests: Vec<Descriptor>,
}

fn is_named(entry: &Descriptor, wanted: &ImageReference) -> bool {
    let names = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
    names.iter().any(|key| entry.annotation(key).is_some_and(|name| wanted.is(name)))
}

/// The layers of an image, the lowest first; `None` if the archive does not contain it.
pub(super) fn find<F>(
    archive: &Archive<F>,
    wanted: &ImageReference,
) -> Result<Option<Vec<Layer>>, MachineError>
where
    F: Fn() -> Result<File, MachineError>,
{
    let (mut saved, mut index) = (None, None);
    scan((archive.0)()?, |name, content| {
        match name {
            "manifest.json" => saved = Some(parse::<Vec<Saved>>(&read(content)?)?),
            "index.json" => index = Some(parse::<Index>(&read(content)?)?),
            _ => {}
        }
        Ok((saved.is_some() && index.is_some()).then_some(()))
    })?;
    let is_saved = |image: &&Saved| image.repo_tags.iter().flatten().any(|tag| wanted.is(tag));
    if let Some(image) = saved.iter().flatten().find(is_saved) {
        return Ok(Some(image.layers.iter().map(|path| Layer::new(path)).collect()));
    }
    let listed = index.unwrap_or_default().manifests;
    let by_name = |entry: &&Descriptor| {
        is_named(entry, wanted) || wanted.digest().is_some_and(|digest| entry.digest() == Ok(digest))
    };
    let Some(mut next) = listed.iter().find(by_name).cloned() else { return Ok(None) };
    for _ in 0..DEPTH {
        match Manifest::parse(&blob(archive, &next)?).map_err(damaged)? {
            Manifest::Image(layers) => {
                let layer = |layer: &Descriptor| Ok(Layer::new(&path(layer.digest().map_err(damaged)?)));
                return layers.iter().map(layer).collect::<Result<_, _>>().map(Some);
            }
            Manifest::List(list) => next = Manifest::for_this_machine(list).map_err(damaged)?,
        }
    }
    Err(damaged("lists of images are nested too deep"))
}

fn path(digest: Digest) -> String {
    format!("blobs/sha256/{digest}")
}

fn blob<F>(archive: &Archive<F>, of: &Descriptor) -> Result<Vec<u8>, MachineError>
where
    F: Fn() -> Result<File, MachineError>,
{
    let digest = of.digest().map_err(damaged)?;
    let path = path(digest);
    let found = archive.read(&path, read)?;
    let bytes = found.ok_or_else(|| damaged(format!("{path} is missing")))?;
    if Digest::of(&bytes) == digest { Ok(bytes) } else { Err(damaged(format!("{path} has another digest"))) }
}

fn read(content: &mut dyn Read) -> Result<Vec<u8>, MachineError> {
    let mut bytes = Vec::new();
    content.take(LARGEST_MANIFEST as u64 + 1).read_to_end(&mut bytes).map_err(damaged)?;
    if bytes.len() > LARGEST_MANIFEST {
        Err(damaged("a description of an image is too large"))
    } else {
        Ok(bytes)
    }
}

fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, MachineError> {
    serde_json::from_slice(bytes).map_err(damaged)
}
