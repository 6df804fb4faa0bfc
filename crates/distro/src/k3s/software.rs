//! The software of k3s, and its paths on a machine.

use capstan_plan::{Artifact, MachinePath, Mode};

use crate::error::InputError;
use crate::inputs::Software;

/// Name, in the catalog, of the program as its makers release it: one file that holds everything.
pub(crate) const PROGRAM: &str = "k3s";

/// Name, in the catalog, of the images that k3s needs, for machines that cannot fetch them.
pub(crate) const IMAGES: &str = "k3s-airgap-images";

const FOLDER: &str = "/opt/capstan/k3s";
const IMAGES_PATH: &str = "/var/lib/rancher/k3s/agent/images/capstan-airgap.tar";

/// Where a version lies. Never changed: another version is another folder.
pub(super) fn program_path(version: &str) -> Result<String, InputError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    match version.starts_with('v') && version.len() <= 128 && version.chars().all(plain) {
        true => Ok(format!("{FOLDER}/{version}/k3s")),
        false => {
            Err(InputError::new("spec.version", "is not a Kubernetes version: write it like v1.36.0+k3s1"))
        }
    }
}

/// Whether an artifact is a program of some version.
pub(crate) fn is_program(artifact: &Artifact) -> bool {
    artifact.path.as_str().strip_prefix(FOLDER).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether an artifact is the program of this version.
pub(crate) fn is_of_version(artifact: &Artifact, version: &str) -> bool {
    program_path(version).is_ok_and(|path| artifact.path.as_str() == path)
}

pub(super) fn program(software: &Software, path: &str) -> Artifact {
    artifact(software, path, 0o755)
}

pub(super) fn images(software: &Software) -> Artifact {
    artifact(software, IMAGES_PATH, 0o644)
}

fn artifact(software: &Software, path: &str, mode: u32) -> Artifact {
    Artifact {
        sha256: software.sha256,
        size: software.size,
        sources: software.sources.clone(),
        path: MachinePath::new(path).expect("a path of this module, with a version of plain characters"),
        unpack: None,
        mode: Mode::new(mode).expect("a mode"),
        owner: 0,
        group: 0,
    }
}
