//! `make book`: the documentation as HTML, by mdBook.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::log::Log;
use crate::{cargo, paths};

/// What the book is built with. Installed on first use: nothing else needs it.
const MDBOOK: &str = "0.5.4";

pub(crate) fn build(log: &Log) -> Result<()> {
    let root = paths::root()?;
    let folders = [root.join("docs"), root.to_owned()];
    let folder = folders.iter().find(|folder| folder.join("book.toml").is_file());
    let folder = folder.context("there is no docs/book.toml")?;
    let status = Command::new(mdbook(log)?)
        .arg("build")
        .arg(folder)
        .stdout(log.stdio()?)
        .stderr(log.stdio()?)
        .status()
        .context("cannot run mdbook")?;
    ensure!(status.success(), "`mdbook build {}` failed ({status})", folder.display());
    Ok(())
}

/// The pinned mdBook, installed below the target folder if it is not there.
fn mdbook(log: &Log) -> Result<PathBuf> {
    let place = paths::target()?.join("tools");
    let program = place.join("bin/mdbook");
    if !is_pinned(&program) {
        let place = place.to_str().with_context(|| format!("{} is not text", place.display()))?;
        let what = ["install", "mdbook", "--version", MDBOOK, "--locked", "--root", place];
        // Without its web server and its file watcher: they are most of what would be compiled.
        cargo::succeed(&[&what[..], &["--no-default-features", "--features", "search"]].concat(), log)?;
    }
    Ok(program)
}

fn is_pinned(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == format!("mdbook v{MDBOOK}"))
}
