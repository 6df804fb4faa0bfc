//! Runs the quick starts as printed: all `sh` blocks of a page, in one shell, one after the other.
//!
//! The reader fills in blocks that are marked `sh values`; a test replaces them with its own values.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use capstan_testkit::tied_to_this_process;
use capstan_tools::{Program, locate};
use tempfile::TempDir;

use crate::{program, yard};

/// The longest page makes a real cluster, on a machine that may have other things to do.
const DEADLINE: Duration = Duration::from_secs(1500);

/// What a page needs in addition to `capstan` and kubectl.
pub enum Surroundings<'a> {
    /// Nothing: the page runs in its own network namespace, so that its ports are free.
    Nothing,
    /// Other machines, with the values for them.
    Machines(&'a str),
}

/// Runs a page of `docs/quick-start`, and returns the output of the shell.
pub async fn follow(page: &str, around: Surroundings<'_>) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/quick-start").join(page);
    let text = std::fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    let folder = TempDir::with_prefix("capstan-quick-start-")?;
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin)?;
    put(&program::build()?, &bin.join("capstan"))?;
    for (program, name) in [(Program::Kubectl, "kubectl"), (Program::Clusterctl, "clusterctl")] {
        put(&locate(program)?, &bin.join(name))?;
    }
    let (mut shell, values) = match around {
        Surroundings::Nothing => (alone(), ""),
        Surroundings::Machines(values) => {
            put(&yard::agent()?, &bin.join("capstan-agent"))?;
            (among_others(), values)
        }
    };
    let script = folder.path().join("script");
    std::fs::write(&script, format!("set -euxo pipefail\n{}", script_of(&text, values)))?;
    let found = std::env::var("PATH").unwrap_or_default();
    shell
        .arg("bash")
        .arg(&script)
        .current_dir(folder.path())
        .env("PATH", format!("{}:{found}", bin.display()))
        .env("HOME", folder.path())
        .stdin(Stdio::null());
    let ran = tokio::process::Command::from(shell).kill_on_drop(true).output();
    let output = tokio::time::timeout(DEADLINE, ran).await.context("it takes too long")??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = format!("{}{}", text(&output.stdout), text(&output.stderr));
    let log = std::fs::read_to_string(folder.path().join("plane.log")).unwrap_or_default();
    ensure!(output.status.success(), "{page} failed ({}):\n{printed}\nThe plane:\n{log}", output.status);
    Ok(printed)
}

/// A program under the name that readers know. Not as a link: `capstan` looks for the agent beside itself.
fn put(program: &Path, name: &Path) -> Result<()> {
    if std::fs::hard_link(program, name).is_err() {
        std::fs::copy(program, name).with_context(|| format!("cannot copy {}", program.display()))?;
    }
    Ok(())
}

/// Processes of its own, all of which end with it.
fn among_others() -> Command {
    let mut command = tied_to_this_process(Path::new("/usr/bin/unshare"));
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    command
}

/// The same, and a network of its own.
fn alone() -> Command {
    let mut command = among_others();
    command.args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]);
    command
}

/// The shell's part of a page.
fn script_of(page: &str, values: &str) -> String {
    let mut script = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let mut block = lines.by_ref().take_while(|line| *line != "```");
        match line {
            "```sh" => block.for_each(|line| script.extend([line, "\n"])),
            "```sh values" => {
                block.by_ref().for_each(drop);
                script.push_str(values);
            }
            _ => {}
        }
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_in_order() {
        let page = "a\n```sh\none\n```\nb\n```sh values\nyours\n```\n```yaml\nno\n```\n```sh\ntwo\n```\n";
        assert_eq!(script_of(page, "mine\n"), "one\nmine\ntwo\n");
    }
}
