//! The program `capstan` itself, as a user runs it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Runs `capstan` and gives what it prints. It is built first, so that it is never older than its sources.
pub fn capstan(args: &[&str]) -> Result<String> {
    let output = Command::new(build()?).args(args).output().context("cannot run capstan")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && stderr.is_empty(), "capstan failed ({}): {stderr}", output.status);
    String::from_utf8(output.stdout).context("capstan printed something that is not text")
}

/// Builds it, and gives its path in the words of cargo, who knows where everything goes.
pub(crate) fn build() -> Result<PathBuf> {
    let output = Command::new(env!("CARGO"))
        // Of the workspace, not of its package: the same features as the tests, so nothing is compiled twice.
        .args(["build", "--quiet", "--locked", "--workspace", "--bin=capstan", "--message-format=json"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "cannot build capstan: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .context("cargo did not say where it put capstan")
}
