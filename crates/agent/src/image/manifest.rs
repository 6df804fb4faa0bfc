//! Descriptions of images, as OCI and Docker write them: lists of platforms, and lists of layers.

use capstan_plan::Digest;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Largest description of an image.
pub const LARGEST_MANIFEST: usize = 4 * 1024 * 1024;

/// How deep lists of images may be nested.
pub const DEPTH: usize = 3;

/// Most layers of an image, as containerd has it.
const LAYERS: usize = 127;

/// Why a description is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is not JSON, or not of these types.
    #[error("a description of an image is not valid JSON for one")]
    Json,
    /// A digest of another algorithm.
    #[error("a digest is not of sha256")]
    Digest,
    /// Neither a list nor an image.
    #[error("a description of an image has neither layers nor images")]
    Empty,
    /// Too many layers.
    #[error("the image has more than {LAYERS} layers")]
    Layers,
    /// No image of the list is for this machine.
    #[error("the image is not for this architecture")]
    Architecture,
}

/// A reference to content by its digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Descriptor {
    digest: String,
    /// Size in bytes; 0 if it is not said.
    pub size: u64,
    annotations: Option<BTreeMap<String, String>>,
    platform: Option<Platform>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Platform {
    architecture: String,
    os: String,
}

impl Descriptor {
    /// The digest.
    ///
    /// # Errors
    /// If it is of another algorithm than sha256.
    pub fn digest(&self) -> Result<Digest, ManifestError> {
        let digest = self.digest.strip_prefix("sha256:").and_then(|hex| hex.parse().ok());
        digest.ok_or(ManifestError::Digest)
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Whether it is for this machine. One without a platform is for any.
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

/// A description of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manifest {
    /// A list of images, such as one for each platform.
    List(Vec<Descriptor>),
    /// The layers of an image, the lowest first.
    Image(Vec<Descriptor>),
}

#[derive(Deserialize)]
struct Read {
    manifests: Option<Vec<Descriptor>>,
    layers: Option<Vec<Descriptor>>,
}

impl Manifest {
    /// Reads a description.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let read: Read = serde_json::from_slice(bytes).map_err(|_| ManifestError::Json)?;
        match (read.manifests.filter(|list| !list.is_empty()), read.layers) {
            (Some(list), _) => Ok(Self::List(list)),
            (None, Some(layers)) if layers.len() > LAYERS => Err(ManifestError::Layers),
            (None, Some(layers)) => Ok(Self::Image(layers)),
            (None, None) => Err(ManifestError::Empty),
        }
    }

    /// The first image of a list that is for this machine.
    ///
    /// # Errors
    /// If there is none.
    pub fn for_this_machine(list: Vec<Descriptor>) -> Result<Descriptor, ManifestError> {
        list.into_iter().find(Descriptor::is_for_this_machine).ok_or(ManifestError::Architecture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn parse(value: &Value) -> Result<Manifest, ManifestError> {
        Manifest::parse(value.to_string().as_bytes())
    }

    #[test]
    fn lists_and_images_are_told_apart() {
        let layer = json!({"digest": format!("sha256:{}", Digest::of(b"x")), "size": 7});
        let Ok(Manifest::Image(layers)) = parse(&json!({"layers": [layer], "config": {}})) else { panic!() };
        assert_eq!((layers[0].digest(), layers[0].size), (Ok(Digest::of(b"x")), 7));
        assert_eq!(parse(&json!({"layers": []})), Ok(Manifest::Image(Vec::new())));
        assert_eq!(parse(&json!({"manifests": [], "layers": []})), Ok(Manifest::Image(Vec::new())));
        assert!(matches!(parse(&json!({"manifests": [layer], "layers": null})), Ok(Manifest::List(_))));
        assert_eq!(parse(&json!({"fsLayers": []})), Err(ManifestError::Empty));
        assert_eq!(parse(&json!({"layers": vec![layer; LAYERS + 1]})), Err(ManifestError::Layers));
        assert_eq!(parse(&json!([])), Err(ManifestError::Json));
        assert_eq!(
            Descriptor { digest: "md5:1".into(), ..Descriptor::default() }.digest(),
            Err(ManifestError::Digest)
        );
    }

    #[test]
    fn the_image_for_this_machine_is_chosen() {
        let here = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let chosen = |platforms: &[Value]| {
            let list = platforms
                .iter()
                .enumerate()
                .map(|(size, platform)| json!({"size": size, "platform": platform}));
            let Ok(Manifest::List(list)) = parse(&json!({"manifests": list.collect::<Vec<_>>()})) else {
                panic!()
            };
            Manifest::for_this_machine(list).map(|found| found.size)
        };
        let linux = |architecture: &str| json!({"os": "linux", "architecture": architecture});
        let windows = json!({"os": "windows", "architecture": here});
        let attestation = json!({"os": "unknown", "architecture": "unknown"});
        assert_eq!(chosen(&[windows.clone(), linux("s390x"), attestation.clone(), linux(here)]), Ok(3));
        assert_eq!(chosen(&[windows.clone(), Value::Null, linux(here)]), Ok(1));
        assert_eq!(chosen(&[windows, linux("s390x"), attestation]), Err(ManifestError::Architecture));
    }
}
