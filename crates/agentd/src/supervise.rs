//! `capstan-agent supervise FOLDER`: the process beside a command. Started by the agent, never by people.

use std::ffi::OsString;
use std::path::Path;

use crate::Failure;

/// Its name among the subcommands.
const NAME: &str = "supervise";

pub(crate) async fn run(folder: &Path) -> Result<(), Failure> {
    // It is started by a path that says nothing to people who look at their processes.
    let _ = std::fs::write("/proc/self/comm", "capstan-command");
    capstan_agent::real::supervise(folder).await.map_err(Failure::new)
}

/// The words that start it, before the folder. Always this very program, also when an upgrade has replaced its file: the
/// next version may expect another order.
pub(crate) fn program() -> Vec<OsString> {
    vec![format!("/proc/{}/exe", std::process::id()).into(), NAME.into()]
}
