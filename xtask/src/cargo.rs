//! Runs cargo, keeps what it prints, and counts the tests it ran.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::log::Log;
use crate::suite::Tests;

/// The cargo that runs us, so that a wrapper's choice of toolchain holds.
pub(crate) fn command(args: &[&str], log: &Log) -> Result<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).stdout(log.stdio()?).stderr(log.stdio()?);
    Ok(command)
}

/// Runs cargo for its exit code alone.
pub(crate) fn succeed(args: &[&str], log: &Log) -> Result<Tests> {
    succeed_with(args, &[], log)
}

/// The same with paths in its environment.
pub(crate) fn succeed_with(args: &[&str], environment: &[(&str, &Path)], log: &Log) -> Result<Tests> {
    let status =
        command(args, log)?.envs(environment.iter().copied()).status().context("cannot run cargo")?;
    if !status.success() {
        bail!("`cargo {}` failed", args.join(" "));
    }
    Ok(Tests::ONE)
}

/// Runs `cargo test` and adds up the closing lines of its test programs.
pub(crate) fn test(args: &[&str], log: &Log) -> Result<Tests> {
    test_with(args, &[], log)
}

/// The same with more in its environment.
pub(crate) fn test_with(args: &[&str], environment: &[(&str, &str)], log: &Log) -> Result<Tests> {
    let before = log.len();
    let status =
        command(args, log)?.envs(environment.iter().copied()).status().context("cannot run cargo")?;
    let tests = count(&log.after(before)?);
    if !status.success() && tests.failed == 0 {
        bail!("`cargo {}` failed before its tests ended", args.join(" "));
    }
    Ok(tests)
}

fn count(printed: &str) -> Tests {
    printed.lines().filter_map(closing_line).fold(Tests::default(), |sum, more| Tests {
        passed: sum.passed + more.passed,
        failed: sum.failed + more.failed,
    })
}

/// `test result: ok. 3 passed; 0 failed; …`
fn closing_line(line: &str) -> Option<Tests> {
    let counts = line.strip_prefix("test result: ")?;
    let number_before = |word: &str| {
        counts.split(['.', ';']).find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
    };
    Some(Tests { passed: number_before("passed")?, failed: number_before("failed")? })
}

/// What cargo prints, for another program to read.
pub(crate) fn output(args: &[&str], log: &Log) -> Result<Vec<u8>> {
    output_with(args, &[], log)
}

/// The same with paths in its environment.
pub(crate) fn output_with(args: &[&str], environment: &[(&str, &Path)], log: &Log) -> Result<Vec<u8>> {
    let mut command = command(args, log)?;
    let output = command.envs(environment.iter().copied()).stdout(std::process::Stdio::piped()).output();
    let output = output.context("cannot run cargo")?;
    if !output.status.success() {
        bail!("`cargo {}` failed", args.join(" "));
    }
    Ok(output.stdout)
}

/// Builds a program of the workspace, with the features that the whole workspace asks for, and gives its path.
pub(crate) fn build_program(name: &str, more: &[&str], log: &Log) -> Result<PathBuf> {
    let bin = format!("--bin={name}");
    let words = ["build", "--locked", "--workspace", &bin, "--message-format=json-render-diagnostics"];
    let messages = output(&[&words[..], more].concat(), log)?;
    executable(name, "bin", &String::from_utf8_lossy(&messages))
        .with_context(|| format!("cargo did not print the path of {name}"))
}

/// The path of a program of a kind (`bin`, `test`) in cargo's messages, which may also name the unit tests of a `bin`.
pub(crate) fn executable(name: &str, kind: &str, messages: &str) -> Option<PathBuf> {
    let message = |line: &str| serde_json::from_str::<Value>(line).ok();
    let is_it = |it: &Value| {
        let target = &it["target"];
        let is_unit_tests = kind == "bin" && it["profile"]["test"] == true;
        target["name"] == name && target["kind"][0] == kind && !is_unit_tests
    };
    let found = messages.lines().filter_map(message).find(is_it)?;
    found["executable"].as_str().map(PathBuf::from)
}

/// What cargo knows of the workspace and of all that it depends on, as JSON.
pub(crate) fn metadata(log: &Log) -> Result<Vec<u8>> {
    // Of the platform we ship for: the crates of all the others would have to be fetched to be read.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    output(&["metadata", "--locked", "--format-version", "1", "--filter-platform", &platform], log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_added_up() {
        let ok =
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.40s";
        assert_eq!(closing_line(ok), Some(Tests { passed: 3, failed: 0 }));
        let bad = "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(closing_line(bad), Some(Tests { passed: 2, failed: 1 }));
        assert_eq!(closing_line("test a ... ok"), None);
        assert_eq!(count(&format!("test a ... ok\n{ok}\n\n{bad}\n")), Tests { passed: 5, failed: 1 });
    }

    #[test]
    fn the_path_of_a_program_is_found() {
        let artifact = |kind: &str, is_test: bool, path: &str| {
            let target = serde_json::json!({"name": "capstan", "kind": [kind]});
            let profile = serde_json::json!({"test": is_test});
            format!("{}\n", serde_json::json!({"target": target, "profile": profile, "executable": path}))
        };
        let messages = [
            artifact("lib", false, "/t/lib"),
            artifact("bin", true, "/t/capstan-test"),
            artifact("bin", false, "/t/capstan"),
        ]
        .concat();
        assert_eq!(executable("capstan", "bin", &messages), Some(PathBuf::from("/t/capstan")));
        assert_eq!(executable("other", "bin", &messages), None);
        assert_eq!(executable("capstan", "test", &messages), None);
        assert_eq!(executable("capstan", "bin", "not JSON"), None);
        let messages = artifact("test", true, "/t/suite");
        assert_eq!(executable("capstan", "test", &messages), Some(PathBuf::from("/t/suite")));
    }
}
