//! Finds an image in an archive.

use capstan_plan::Digest;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use super::reference::Reference;
use super::{damaged, scan};
use crate::machine::MachineError;

/// Largest description of an image.
const LARGEST: u64 = 4 * 1024 * 1024;

/// How deep lists of images may be nested.
const DEPTH: usize = 3;

/// A layer: a file of the archive, and its digest if it is named by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) path: String,
    pub(super) digest: Option<Digest>,
}

impl Layer {
    fn new(path: &str) -> Self {
        let digest = path.strip_prefix("blobs/sha256/").and_then(|hex| hex.parse().ok());
        Self { path: path.to_owned(), digest }
    }
}

/// `manifest.json`, as Docker writes it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Saved {
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// `index.json` of an OCI layout, a list of images, or an image.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Index {
    manifests: Vec<Descriptor>,
    layers: Vec<Descriptor>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Descriptor {
    digest: String,
    annotations: Option<BTreeMap<String, String>>,
    platform: Option<Platform>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Platform {
    architecture: String,
    os: String,
}

impl Descriptor {
    fn digest(&self) -> Result<Digest, MachineError> {
        let digest = self.digest.strip_prefix("sha256:").and_then(|hex| hex.parse().ok());
        digest.ok_or_else(|| damaged("a digest is not of sha256"))
    }

    fn is_named(&self, wanted: &Reference) -> bool {
        let names = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
        let annotations = self.annotations.as_ref();
        names.iter().any(|key| annotations.and_then(|all| all.get(*key)).is_some_and(|name| wanted.is(name)))
    }

    /// One without a platform is for any.
    fn is_for_this_machine(&self) -> bool {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        self.platform
            .as_ref()
            .is_none_or(|platform| platform.os == "linux" && platform.architecture == architecture)
    }
}

/// The layers of an image, the lowest first; `None` if the archive does not contain it.
pub(super) fn find(
    open: &impl Fn() -> Result<File, MachineError>,
    wanted: &Reference,
) -> Result<Option<Vec<Layer>>, MachineError> {
    let (mut saved, mut index) = (None, None);
    scan(open()?, |name, content| {
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
        entry.is_named(wanted) || wanted.digest.is_some_and(|digest| entry.digest().ok() == Some(digest))
    };
    let Some(mut next) = listed.iter().find(by_name).cloned() else { return Ok(None) };
    for _ in 0..DEPTH {
        let image: Index = parse(&blob(open, &next)?)?;
        if image.manifests.is_empty() {
            let layer = |layer: &Descriptor| Ok(Layer::new(&format!("blobs/sha256/{}", layer.digest()?)));
            return image.layers.iter().map(layer).collect::<Result<_, _>>().map(Some);
        }
        let fitting = image.manifests.into_iter().find(Descriptor::is_for_this_machine);
        next = fitting.ok_or_else(|| damaged("the image is not for this architecture"))?;
    }
    Err(damaged("lists of images are nested too deep"))
}

fn blob(open: &impl Fn() -> Result<File, MachineError>, of: &Descriptor) -> Result<Vec<u8>, MachineError> {
    let digest = of.digest()?;
    let path = format!("blobs/sha256/{digest}");
    let found = scan(open()?, |name, content| if name == path { read(content).map(Some) } else { Ok(None) })?;
    let bytes = found.ok_or_else(|| damaged(format!("{path} is missing")))?;
    if Digest::of(&bytes) == digest { Ok(bytes) } else { Err(damaged(format!("{path} has another digest"))) }
}

fn read(content: &mut dyn Read) -> Result<Vec<u8>, MachineError> {
    let mut bytes = Vec::new();
    content.take(LARGEST + 1).read_to_end(&mut bytes).map_err(damaged)?;
    if bytes.len() as u64 > LARGEST {
        Err(damaged("a description of an image is too large"))
    } else {
        Ok(bytes)
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, MachineError> {
    serde_json::from_slice(bytes).map_err(damaged)
}
