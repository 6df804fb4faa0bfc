//! `make demo` and `make demo-real`: build Capstan and show the main job.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;

use crate::{agent, cargo};

pub(crate) fn run() -> Result<()> {
    capstan(&["demo"])
}

/// On real machines: their root file system and k3s are built first, and the agent as it is shipped.
pub(crate) fn run_real() -> Result<()> {
    capstan_tools::build_machines(&capstan_tools::to_stderr)?;
    let agent = agent::build()?;
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("there is no k3s for {other} here"),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has a parent folder")?;
    let folder = root.join("target/demo-real");
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
    cargo::succeed(&[&["run", "--quiet", "--locked", "--package", "capstan", "--"], words].concat())?;
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not text", path.display()))
}
