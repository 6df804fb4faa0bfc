//! Runs external programs, and turns their failures into errors with a remedy.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::error::{Error, Result};

const NET_ADMIN: &str = "; run Capstan as root, with the right to administer the network (CAP_NET_ADMIN)";
const DISK: &str = "; free some disk space";

/// Runs it to its end and gives what it printed.
pub(crate) fn run<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<String> {
    let spoken = || {
        let words = arguments.iter().map(|word| word.as_ref().to_string_lossy().into_owned());
        std::iter::once(program.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    };
    let output = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Error::Command { command: spoken(), said: error.to_string(), remedy: "" })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let remedy = remedy(&said);
    let said = if said.is_empty() { output.status.to_string() } else { said };
    Err(Error::Command { command: spoken(), said, remedy })
}

fn remedy(said: &str) -> &'static str {
    match said {
        said if said.contains("Operation not permitted") => NET_ADMIN,
        said if said.contains("No space left on device") => DISK,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_failure_are_distinguished() {
        assert_eq!(run("sh", &["-c", "echo out"]).expect("runs"), "out\n");
        let error = run("sh", &["-c", "echo RTNETLINK answers: Operation not permitted >&2; exit 2"])
            .expect_err("fails")
            .to_string();
        assert!(error.contains("CAP_NET_ADMIN"), "{error}");
        let error = run("sh", &["-c", "exit 3"]).expect_err("fails").to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(run::<&str>("/nowhere/program", &[]).is_err());
    }
}
