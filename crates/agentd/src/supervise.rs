//! `capstan-agent supervise FOLDER`: the process beside a command. Started by the agent, never by people.

use std::ffi::OsString;
use std::path::Path;

use crate::Failure;

/// Its name among the subcommands.
const NAME: &str = "supervise";

pub(crate) async fn run(folder: &Path) -> Result<(), Failure> {
    // The path it is started by would name it `exe` in `ps` and `top`.
    let _ = std::fs::write("/proc/self/comm", "capstan-command");
    // The agent is protected when memory runs out. What a command leaves running is not.
    let _ = std::fs::write("/proc/self/oom_score_adj", "0");
    capstan_agent::real::supervise(folder).await.map_err(Failure::new)
}

/// The words that start it, before the folder. Always this very program, also when an upgrade has replaced its file: the
/// next version may expect another order.
pub(crate) fn program() -> Vec<OsString> {
    vec![format!("/proc/{}/exe", std::process::id()).into(), NAME.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_this_one() {
        let [program, name] = &program()[..] else { panic!("two words") };
        assert_eq!(std::fs::canonicalize(program).ok(), std::env::current_exe().ok());
        assert_eq!(name, NAME);
    }
}
