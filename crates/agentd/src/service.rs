//! The agent as a service of systemd.

use std::path::Path;
use tokio::process::Command;

use crate::paths::Paths;
use crate::{Failure, files};

const NAME: &str = "capstan-agent.service";

/// The unit. What a plan's commands leave running must survive a restart of the agent. When memory runs out, the kernel ends
/// other processes first: without its agent, a machine cannot be repaired. No core dumps: memory contains secrets.
fn unit(binary: &Path) -> String {
    format!(
        "[Unit]\n\
         Description=Capstan agent\n\
         Wants=network-online.target\n\
         After=network-online.target\n\
         StartLimitIntervalSec=0\n\
         \n\
         [Service]\n\
         ExecStart={} run\n\
         Restart=always\n\
         RestartSec=5s\n\
         KillMode=process\n\
         OOMScoreAdjust=-900\n\
         LimitCORE=0\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        binary.display()
    )
}

/// Puts the unit there, so that the agent comes up with the machine.
pub(crate) async fn install(paths: &Paths) -> Result<(), Failure> {
    let path = paths.unit();
    let wanted = unit(&paths.binary()).into_bytes();
    if files::read(&path).ok().flatten().as_ref() != Some(&wanted) {
        files::write_for(&path, &wanted, 0o644)
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))?;
    }
    systemctl(&["daemon-reload"]).await?;
    systemctl(&["enable", NAME]).await
}

/// Starts the agent, anew if it runs: it may be another version by now.
pub(crate) async fn restart() -> Result<(), Failure> {
    systemctl(&["restart", NAME]).await
}

/// Stops the agent for a moment.
pub(crate) async fn halt() -> Result<(), Failure> {
    systemctl(&["stop", NAME]).await
}

/// Stops the agent, and keeps it from coming up with the machine.
pub(crate) async fn stop(paths: &Paths) -> Result<(), Failure> {
    if !paths.unit().exists() {
        return Ok(());
    }
    systemctl(&["disable", "--now", NAME]).await
}

/// Takes the unit away. It must have been stopped.
pub(crate) async fn uninstall(paths: &Paths) -> Result<(), Failure> {
    if !paths.unit().exists() {
        return Ok(());
    }
    files::remove(&paths.unit()).map_err(Failure::new)?;
    systemctl(&["daemon-reload"]).await
}

/// Whether it runs, if there is anybody to ask.
pub(crate) async fn state() -> Option<String> {
    let answer = Command::new("systemctl").args(["is-active", NAME]).output().await.ok()?;
    Some(String::from_utf8_lossy(&answer.stdout).trim().to_owned()).filter(|state| !state.is_empty())
}

async fn systemctl(words: &[&str]) -> Result<(), Failure> {
    let line = || format!("systemctl {}", words.join(" "));
    let answer = Command::new("systemctl").args(words).output().await;
    let answer = answer.map_err(|error| Failure::new(format!("cannot run {}: {error}", line())))?;
    if answer.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&answer.stderr);
    Err(Failure::new(format!("{} failed: {}", line(), said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_runs_the_agent_for_ever() {
        let unit = unit(Path::new("/opt/capstan/capstan-agent"));
        assert!(unit.contains("\nExecStart=/opt/capstan/capstan-agent run\n"));
        assert!(unit.contains("\nRestart=always\n") && unit.contains("\nKillMode=process\n"));
        assert!(unit.contains("\nOOMScoreAdjust=-900\n") && unit.contains("\nLimitCORE=0\n"));
    }
}
