//! The catalog of available software. Pure.

use capstan_plan::Digest;
use std::collections::BTreeMap;

use crate::Arch;

/// A file of software that machines download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactRef {
    /// SHA-256 of its bytes. It identifies the file.
    pub sha256: Digest,
    /// Exact size in bytes.
    pub size: u64,
    /// Download sources, the preferred one first. Never empty.
    pub sources: Vec<Source>,
}

/// A source to download a file from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// An `https` URL.
    pub url: String,
    /// The only CA that the machine accepts for this URL, as PEM. Without it, the machine uses its system trust store.
    pub ca: Option<String>,
}

/// The software that is available at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    // By name, then version: versions of one name are asked for together.
    entries: BTreeMap<String, BTreeMap<String, BTreeMap<Arch, ArtifactRef>>>,
}

impl Catalog {
    /// Adds a file, or replaces the one with the same name, version and architecture.
    #[must_use]
    pub fn with(mut self, name: &str, version: &str, arch: Arch, artifact: ArtifactRef) -> Self {
        let versions = self.entries.entry(name.to_owned()).or_default();
        versions.entry(version.to_owned()).or_default().insert(arch, artifact);
        self
    }

    /// The file with this name, version and architecture.
    pub fn find(&self, name: &str, version: &str, arch: Arch) -> Option<&ArtifactRef> {
        self.entries.get(name)?.get(version)?.get(&arch)
    }

    /// The files of one version, one for each available architecture.
    pub fn of(&self, name: &str, version: &str) -> impl Iterator<Item = (Arch, &ArtifactRef)> {
        let found = self.entries.get(name).and_then(|versions| versions.get(version));
        found.into_iter().flatten().map(|(arch, artifact)| (*arch, artifact))
    }

    /// The available versions of a name, sorted as text. For messages.
    pub fn versions(&self, name: &str) -> impl Iterator<Item = &str> {
        self.entries.get(name).into_iter().flat_map(|versions| versions.keys().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(content: &str) -> ArtifactRef {
        let source = Source { url: format!("https://plane/{content}"), ca: None };
        ArtifactRef {
            sha256: Digest::of(content.as_bytes()),
            size: content.len() as u64,
            sources: vec![source],
        }
    }

    #[test]
    fn software_is_found_by_name_version_and_architecture() {
        let catalog = Catalog::default()
            .with("k3s", "v1", Arch::Amd64, artifact("a"))
            .with("k3s", "v1", Arch::Arm64, artifact("b"))
            .with("k3s", "v2", Arch::Amd64, artifact("old"))
            .with("k3s", "v2", Arch::Amd64, artifact("c"));
        assert_eq!(catalog.find("k3s", "v1", Arch::Arm64), Some(&artifact("b")));
        assert_eq!(catalog.find("k3s", "v2", Arch::Amd64), Some(&artifact("c")));
        assert_eq!(catalog.find("k3s", "v2", Arch::Arm64), None);
        assert_eq!(catalog.find("rke2", "v1", Arch::Amd64), None);
        assert_eq!(
            catalog.of("k3s", "v1").map(|(arch, _)| arch).collect::<Vec<_>>(),
            [Arch::Amd64, Arch::Arm64]
        );
        assert_eq!(catalog.versions("k3s").collect::<Vec<_>>(), ["v1", "v2"]);
        assert_eq!(catalog.of("k3s", "v3").count() + catalog.versions("rke2").count(), 0);
    }
}
