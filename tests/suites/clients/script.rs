//! A script of shell commands, one in each line, played in a folder of its own.

use std::fmt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use capstan_tools::{Program, locate};
use tempfile::TempDir;
use tokio::process::Command;

use crate::plain::plain;
use crate::suite;

/// A command that takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(180);

/// A command, how it ended and what it printed, without what is never the same.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandOutput {
    pub(crate) command: String,
    code: Option<i32>,
    out: String,
    complaints: String,
}

impl fmt::Display for CommandOutput {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, out: printed, complaints, .. } = self;
        write!(out, "exit code {code:?}\n{printed}{complaints}")
    }
}

/// Plays a script with a kubeconfig, of which it gets a copy.
pub(crate) async fn play(name: &str, kubeconfig: &Path) -> Result<Vec<CommandOutput>> {
    let text = std::fs::read_to_string(suite().join(format!("scripts/{name}.sh")))?;
    let folder = stage(kubeconfig)?;
    let mut outputs = Vec::new();
    for command in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        outputs.push(run(command, folder.path()).await?);
    }
    Ok(outputs)
}

/// A folder with the files that scripts speak of.
fn stage(kubeconfig: &Path) -> Result<TempDir> {
    let folder = TempDir::with_prefix("capstan-clients-").context("no temporary folder")?;
    for file in std::fs::read_dir(suite().join("files"))? {
        let file = file?;
        std::fs::copy(file.path(), folder.path().join(file.file_name()))?;
    }
    std::fs::copy(kubeconfig, folder.path().join("kubeconfig"))?;
    std::fs::create_dir(folder.path().join("bin"))?;
    std::os::unix::fs::symlink(locate(Program::Kubectl)?, folder.path().join("bin/kubectl"))?;
    Ok(folder)
}

async fn run(command: &str, folder: &Path) -> Result<CommandOutput> {
    let child = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", folder.join("bin").display()))
        .env("KUBECONFIG", folder.join("kubeconfig"))
        .env("HOME", folder)
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(DEADLINE, child)
        .await
        .with_context(|| format!("{command}: did not end within {} s", DEADLINE.as_secs()))?
        .with_context(|| format!("{command}: cannot be run"))?;
    let text = |bytes: &[u8]| plain(&String::from_utf8_lossy(bytes), folder);
    Ok(CommandOutput {
        command: command.to_owned(),
        code: output.status.code(),
        out: text(&output.stdout),
        complaints: text(&output.stderr),
    })
}
