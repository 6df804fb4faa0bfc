//! The agent as a service of systemd.

use std::path::Path;
use std::time::Duration;
use tokio::process::Command;

use crate::paths::Paths;
use crate::{Failure, files};

const NAME: &str = "capstan-agent.service";

/// The timer that ends the trial of a new program, and the service that it starts.
const TRIAL: &str = "capstan-agent-trial";

/// What protects the agent, and limits no command that it starts. Commands inherit everything else that systemd offers, such as
/// system call filters, file system views, capabilities and the file mode mask.
///
/// When memory runs out, the kernel and systemd-oomd end other processes first, and a check that is ended does not end the
/// agent: without its agent, a machine cannot be repaired. The supervisor takes the adjustment back from commands. No core
/// dumps: memory contains secrets; a command may raise the limit.
pub(crate) const PROTECTION: &str = "OOMScoreAdjust=-900\n\
                                     OOMPolicy=continue\n\
                                     ManagedOOMPreference=avoid\n\
                                     LimitCORE=0:infinity\n";

/// The unit. What a plan's commands leave running must survive a restart of the agent. The guard is the previous program: there
/// is none before the first replacement.
fn unit(binary: &Path, previous: &Path) -> String {
    format!(
        "[Unit]\n\
         Description=Capstan agent\n\
         Wants=network-online.target\n\
         After=network-online.target\n\
         StartLimitIntervalSec=0\n\
         \n\
         [Service]\n\
         ExecStartPre=-{} guard\n\
         ExecStart={} run\n\
         Restart=always\n\
         RestartSec=5s\n\
         KillMode=process\n\
         {PROTECTION}\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        previous.display(),
        binary.display()
    )
}

/// The content of the unit.
pub(crate) fn content(paths: &Paths) -> String {
    let [_, previous] = paths.other_binaries();
    unit(&paths.binary(), &previous)
}

/// Puts the unit there, so that the agent comes up with the machine.
pub(crate) async fn install(paths: &Paths) -> Result<(), Failure> {
    let path = paths.unit();
    let wanted = content(paths).into_bytes();
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

/// Lets the previous program look whether the new one was confirmed, once the time for that is over. A timer that runs goes on.
pub(crate) async fn end_trial_later(paths: &Paths, time: Duration) -> Result<(), Failure> {
    let [_, previous] = paths.other_binaries();
    let (unit, active) = (format!("--unit={TRIAL}"), format!("--on-active={}s", time.as_secs()));
    let words = ["--quiet", "--collect", &unit, &active, "--timer-property=AccuracySec=1s", "--"];
    let mut command = Command::new("systemd-run");
    let answer = command.args(words).arg(previous).args(["guard", "--expired"]).output().await;
    let answer = answer.map_err(|error| Failure::new(format!("cannot run systemd-run: {error}")))?;
    let is_armed = answer.status.success() || is_active(&format!("{TRIAL}.timer")).await;
    let said = String::from_utf8_lossy(&answer.stderr);
    if is_armed { Ok(()) } else { Err(Failure::new(format!("systemd-run failed: {}", said.trim()))) }
}

/// Stops the timer that ends a trial.
pub(crate) async fn forget_trial() {
    // There is none, most often.
    let _ = systemctl(&["stop", &format!("{TRIAL}.timer")]).await;
}

async fn is_active(unit: &str) -> bool {
    let answer = Command::new("systemctl").args(["is-active", "--quiet", unit]).status().await;
    answer.is_ok_and(|status| status.success())
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
pub(crate) mod tests {
    use super::*;

    /// What commands inherit, so that it would limit them.
    const INHERITED: &[&str] = &[
        "AmbientCapabilities",
        "CapabilityBoundingSet",
        "DevicePolicy",
        "InaccessiblePaths",
        "IPAddressDeny",
        "LockPersonality",
        "MemoryDenyWriteExecute",
        "MemoryMax",
        "NoNewPrivileges",
        "PrivateDevices",
        "PrivateMounts",
        "PrivateNetwork",
        "PrivateTmp",
        "PrivateUsers",
        "ProtectClock",
        "ProtectControlGroups",
        "ProtectHome",
        "ProtectHostname",
        "ProtectKernelLogs",
        "ProtectKernelModules",
        "ProtectKernelTunables",
        "ProtectProc",
        "ProtectSystem",
        "ReadOnlyPaths",
        "RestrictAddressFamilies",
        "RestrictNamespaces",
        "RestrictRealtime",
        "RestrictSUIDSGID",
        "SystemCallArchitectures",
        "SystemCallFilter",
        "TasksMax",
        "UMask",
        "User",
    ];

    pub(crate) fn is_protected_and_limits_no_command(unit: &str) {
        let (_, service) = unit.split_once("[Service]\n").expect("a service");
        let (service, _) = service.split_once("\n[Install]\n").expect("its end");
        let settings: Vec<&str> = service.lines().collect();
        for setting in [
            "OOMScoreAdjust=-900",
            "OOMPolicy=continue",
            "ManagedOOMPreference=avoid",
            "LimitCORE=0:infinity",
        ] {
            assert!(settings.contains(&setting), "{setting}: {unit}");
        }
        for name in INHERITED {
            let is_set = settings.iter().any(|line| line.split('=').next() == Some(name));
            assert!(!is_set, "{name} would limit the commands of plans");
        }
    }

    #[test]
    fn the_unit_runs_the_agent_for_ever() {
        let unit = content(&Paths::new("/".into()));
        // Without a previous program the start goes on.
        assert!(unit.contains("\nExecStartPre=-/opt/capstan/capstan-agent.previous guard\n"));
        assert!(unit.contains("\nExecStart=/opt/capstan/capstan-agent run\n"));
        assert!(unit.contains("\nRestart=always\n") && unit.contains("\nKillMode=process\n"));
        is_protected_and_limits_no_command(&unit);
    }
}
