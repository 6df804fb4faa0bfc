//! `capstan release`: writes a release as a repository folder that clusterctl reads.

mod args;

pub(crate) use args::ReleaseArgs;

use anyhow::{Context, Result};
use capstan_components::{ReleaseFile, Version, clusterctl_config, repository};
use std::io::Write as _;
use std::path::{Path, absolute};

/// Where the repository is, in the words of its own `clusterctl.yaml`: clusterctl puts the environment into addresses,
/// and so the file says the same wherever it lies.
const PLACE: &str = "${CAPSTAN_REPOSITORY}";

pub(crate) fn run(args: &ReleaseArgs) -> Result<()> {
    let version: Version = args.version.parse()?;
    let out = absolute(&args.out).with_context(|| format!("cannot use {}", args.out.display()))?;
    let mut files = repository(version);
    files.push(ReleaseFile { path: "clusterctl.yaml".to_owned(), text: clusterctl_config(PLACE) });
    for file in &files {
        write(&out.join(&file.path), &file.text)?;
    }
    let shown = out.display();
    let summary = format!(
        "{version}: {} files in {shown}; try\n  export CAPSTAN_REPOSITORY={shown}\n  \
         clusterctl --config {shown}/clusterctl.yaml config repositories\n",
        files.len()
    );
    std::io::stdout().write_all(summary.as_bytes()).map_err(Into::into)
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Verb};
    use clap::Parser as _;

    fn released(version: &str, out: &Path) -> Result<()> {
        let words = ["capstan", "release", "--version", version, "--out", out.to_str().unwrap()];
        match Args::try_parse_from(words).unwrap().verb {
            Verb::Release(args) => run(&args),
            other => panic!("parsed as {other:?}"),
        }
    }

    #[test]
    fn a_repository_holds_many_versions() {
        let folder = tempfile::tempdir().unwrap();
        for version in ["v0.1.0", "v0.1.1"] {
            released(version, folder.path()).unwrap();
        }
        for version in ["v0.1.0", "v0.1.1"] {
            let file = format!("infrastructure-capstan/{version}/infrastructure-components.yaml");
            let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
            assert!(text.contains(&format!("capstan:{version}")));
        }
        let config = std::fs::read_to_string(folder.path().join("clusterctl.yaml")).unwrap();
        assert!(
            config.contains("url: file://${CAPSTAN_REPOSITORY}/cluster-api/latest/core-components.yaml\n"),
            "{config}"
        );
    }

    #[test]
    fn the_error_of_an_invalid_version_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        for wrong in ["0.1.0", "v9.9.9"] {
            let error = format!("{:#}", released(wrong, folder.path()).unwrap_err());
            assert!(error.contains(wrong) && !error.contains('\n'), "{error}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
