//! `capstan-agent dial` as a service of systemd, with a program of its own.

use std::process::Output;
use tokio::process::Command;

use super::places::Places;
use crate::service::PROTECTION;
use crate::{Failure, files};

const NAME: &str = "capstan-host.service";

/// The unit. What a script leaves running survives a restart of the agent. An agent that ends by itself has nothing to do any
/// more: the machine was taken out of the inventory.
fn content(places: &Places<'_>) -> String {
    format!(
        "[Unit]\n\
         Description=Capstan host registration\n\
         Wants=network-online.target\n\
         After=network-online.target\n\
         StartLimitIntervalSec=0\n\
         \n\
         [Service]\n\
         ExecStart={} dial\n\
         Restart=on-failure\n\
         RestartSec=5s\n\
         KillMode=process\n\
         {PROTECTION}\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        places.binary().display()
    )
}

/// Puts this program and the unit there, so that the machine dials out after every boot, and starts it.
pub(super) async fn install(places: &Places<'_>) -> Result<(), Failure> {
    let wrong = |path: &std::path::Path, error: std::io::Error| {
        Failure::new(format!("cannot write {}: {error}", path.display()))
    };
    let (binary, unit) = (places.binary(), places.unit());
    let program = tokio::task::spawn_blocking(|| std::fs::read("/proc/self/exe")).await;
    let program = program.map_err(Failure::new)?.map_err(Failure::new)?;
    if files::read(&binary).ok().flatten().as_ref() != Some(&program) {
        files::write_for(&binary, &program, 0o755).map_err(|error| wrong(&binary, error))?;
    }
    files::write_for(&unit, content(places).as_bytes(), 0o644).map_err(|error| wrong(&unit, error))?;
    systemctl(&["daemon-reload"]).await?;
    systemctl(&["enable", NAME]).await?;
    systemctl(&["restart", NAME]).await
}

/// Stops the service for a moment, if there is one.
pub(super) async fn halt(places: &Places<'_>) -> Result<(), Failure> {
    match places.unit().exists() {
        true => systemctl(&["stop", NAME]).await,
        false => Ok(()),
    }
}

/// Starts the service again after [`halt`], if there is one.
pub(super) async fn resume(places: &Places<'_>) -> Result<(), Failure> {
    match places.unit().exists() {
        true => systemctl(&["start", NAME]).await,
        false => Ok(()),
    }
}

/// Stops the service and takes its unit away.
pub(super) async fn uninstall(places: &Places<'_>) -> Result<(), Failure> {
    if !places.unit().exists() {
        return Ok(());
    }
    systemctl(&["disable", "--now", NAME]).await?;
    files::remove(&places.unit()).map_err(Failure::new)?;
    systemctl(&["daemon-reload"]).await
}

async fn systemctl(words: &[&str]) -> Result<(), Failure> {
    let line = || format!("systemctl {}", words.join(" "));
    let answer = Command::new("systemctl").args(words).output().await;
    let Output { status, stderr, .. } =
        answer.map_err(|error| Failure::new(format!("cannot run {}: {error}", line())))?;
    match status.success() {
        true => Ok(()),
        false => Err(Failure::new(format!("{} failed: {}", line(), String::from_utf8_lossy(&stderr).trim()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Paths;

    #[test]
    fn the_unit_dials_until_there_is_nothing_to_do() {
        let paths = Paths::new("/".into());
        let unit = content(&Places(&paths));
        assert!(unit.contains("\nExecStart=/opt/capstan-host/capstan-agent dial\n"));
        assert!(unit.contains("\nRestart=on-failure\n") && unit.contains("\nKillMode=process\n"));
        crate::service::tests::is_protected_and_limits_no_command(&unit);
    }
}
