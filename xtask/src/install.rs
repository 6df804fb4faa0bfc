//! `cargo install`, as the README names it: what it installs is the program and does the main job.

use anyhow::{Context, Result, ensure};
use std::process::Command;

use crate::log::Log;
use crate::{cargo, paths};

pub(crate) fn check(log: &Log) -> Result<()> {
    let place = paths::target()?.join("installed");
    let folder = place.to_str().with_context(|| format!("{} is not text", place.display()))?;
    let source = paths::root()?.join("crates/cli");
    let source = source.to_str().with_context(|| format!("{} is not text", source.display()))?;
    cargo::succeed(&["install", "--path", source, "--locked", "--force", "--root", folder], log)?;
    let capstan = place.join("bin/capstan");
    let output = Command::new(&capstan).arg("--version").output().context("cannot run what was installed")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(printed.contains(env!("CARGO_PKG_VERSION")), "`capstan --version` printed {printed:?}");
    // Not in the tree: an installed program has only itself.
    let status = Command::new(&capstan)
        .arg("demo")
        .current_dir("/")
        .stdout(log.stdio()?)
        .stderr(log.stdio()?)
        .status()
        .context("cannot run what was installed")?;
    ensure!(status.success(), "`capstan demo` failed ({status})");
    Ok(())
}
