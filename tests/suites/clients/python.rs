//! Python's kubernetes client.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::process::Command;

use crate::plain::plain;
use crate::suite;

/// The one that Debian's packages are for; another may come first on the path.
const PYTHON: &str = "/usr/bin/python3";
const DEADLINE: Duration = Duration::from_secs(300);

/// Runs `client.py` with a kubeconfig, and gives what it tells.
pub(crate) async fn run(kubeconfig: &Path) -> Result<String> {
    let folder = TempDir::with_prefix("capstan-clients-").context("no temporary folder")?;
    let definition = std::fs::read_to_string(suite().join("files/ships.yaml"))?;
    let definition: serde_json::Value = serde_saphyr::from_str(&definition)?;
    std::fs::write(folder.path().join("ships.json"), definition.to_string())?;
    let child = Command::new(PYTHON)
        // Nothing is left beside the script.
        .arg("-B")
        .arg(suite().join("client.py"))
        .arg(kubeconfig)
        .current_dir(folder.path())
        .env_clear()
        .env("HOME", folder.path())
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(DEADLINE, child).await.context("it does not end")?;
    let output = output.with_context(|| format!("cannot run {PYTHON}"))?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}:\n{stdout}{complaints}", output.status);
    Ok(plain(&stdout, folder.path()))
}
