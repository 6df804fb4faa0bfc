//! Runs the real kubectl, as a user would.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use capstan_tools::{Program, locate};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// A kubectl that takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(120);

/// Exit status and output of a command.
#[derive(Debug)]
pub struct Ran {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error, which contains the API server's warnings.
    pub stderr: String,
}

impl Ran {
    /// Its standard output. If the command failed, an error with all of its output.
    pub fn success(self) -> Result<String> {
        ensure!(
            self.status.success(),
            "the command failed ({}):\n{}{}",
            self.status,
            self.stdout,
            self.stderr
        );
        Ok(self.stdout)
    }
}

/// Runs kubectl with `kubeconfig`, and with `input` on its standard input if given. Its caches are in the folder of the
/// kubeconfig.
pub async fn kubectl(kubeconfig: &Path, args: &[&str], input: Option<&str>) -> Result<Ran> {
    run(kubeconfig, kubeconfig.parent().unwrap_or(kubeconfig), args, input).await
}

/// Runs kubectl with `kubeconfig`. Its caches go to `home`, not to the user's.
pub(crate) async fn run(kubeconfig: &Path, home: &Path, args: &[&str], input: Option<&str>) -> Result<Ran> {
    let name = || format!("kubectl {}", args.join(" "));
    let mut child = Command::new(locate(Program::Kubectl)?)
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", home)
        .env_remove("KUBECACHEDIR")
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot run {}", name()))?;
    let stdin = child.stdin.take();
    let feed = async move {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // It may end without reading everything; its own error says why.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let (_, output) = tokio::time::timeout(DEADLINE, async { tokio::join!(feed, child.wait_with_output()) })
        .await
        .with_context(|| format!("{} did not end within {} s", name(), DEADLINE.as_secs()))?;
    let output = output.with_context(|| format!("cannot wait for {}", name()))?;
    Ok(Ran {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
