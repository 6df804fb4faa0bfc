//! `make demo-real`: builds what real machines need and shows the main job on them.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;

use crate::log::Log;
use crate::{agent, cargo, paths};

/// The machines' root file system and k3s are built first, and the agent as it is shipped.
pub(crate) fn run() -> Result<()> {
    capstan_tools::build_machines(&capstan_tools::to_stderr)?;
    let agent = agent::build(&Log::Terminal)?;
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("there is no k3s for {other} here"),
    };
    let folder = paths::root()?.join("target/demo-real");
    // What a demo before this one had may be of other versions.
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot remove target/demo-real")?;
    }
    let folder = text(&folder)?;
    for version in capstan_tools::K3S_VERSIONS {
        let bundle = capstan_tools::k3s_bundle(version)?;
        for (name, file) in [("k3s", &bundle.program.path), ("k3s-airgap-images", &bundle.images.path)] {
            let what = ["--name", name, "--version", version, "--arch", arch, "--file", text(file)?];
            capstan(&[&["artifacts", "add", "--artifacts-dir", folder], &what[..]].concat())?;
        }
    }
    let (base, agent) = (capstan_tools::machine_rootfs()?, text(&agent)?.to_owned());
    let real = ["--real", "--root-filesystem", text(&base)?, "--artifacts-dir", folder];
    capstan(&[&["demo"], &real[..], &["--agent-binary", &agent]].concat())
}

fn capstan(words: &[&str]) -> Result<()> {
    let run = ["run", "--locked", "--bin", "capstan", "--"];
    cargo::succeed(&[&run[..], words].concat(), &Log::Terminal)?;
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not text", path.display()))
}
