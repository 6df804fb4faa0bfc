//! Runs cargo, shows what it prints, and counts the tests it ran.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::suite::Tests;

/// The cargo that runs us, so that a wrapper's choice of toolchain holds.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    command
}

/// Runs cargo for its exit code alone.
pub(crate) fn succeed(args: &[&str]) -> Result<Tests> {
    succeed_with(args, &[])
}

/// The same with paths in its environment.
pub(crate) fn succeed_with(args: &[&str], environment: &[(&str, &Path)]) -> Result<Tests> {
    let status = command(args).envs(environment.iter().copied()).status().context("cannot run cargo")?;
    if !status.success() {
        bail!("`cargo {}` failed", args.join(" "));
    }
    Ok(Tests::ONE)
}

/// Runs `cargo test` and adds up the closing lines of its test programs.
pub(crate) fn test(args: &[&str]) -> Result<Tests> {
    test_with(args, &[])
}

/// The same with more in its environment.
pub(crate) fn test_with(args: &[&str], environment: &[(&str, &str)]) -> Result<Tests> {
    let mut command = command(args);
    command.envs(environment.iter().copied());
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot run cargo")?;
    let out = child.stdout.take().context("cargo has no standard output")?;
    let mut tests = Tests::default();
    for line in BufReader::new(out).lines() {
        let line = line.context("cannot read what cargo prints")?;
        writeln!(std::io::stdout(), "{line}")?;
        if let Some(more) = closing_line(&line) {
            tests.passed += more.passed;
            tests.failed += more.failed;
        }
    }
    let status = child.wait().context("cannot wait for cargo")?;
    if !status.success() && tests.failed == 0 {
        bail!("`cargo {}` failed before its tests ended", args.join(" "));
    }
    Ok(tests)
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
pub(crate) fn output(args: &[&str]) -> Result<Vec<u8>> {
    let output = command(args).stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("`cargo {}` failed", args.join(" "));
    }
    Ok(output.stdout)
}

/// What cargo knows of the workspace and of all that it depends on, as JSON.
pub(crate) fn metadata() -> Result<Vec<u8>> {
    // Of the platform we ship for: the crates of all the others would have to be fetched to be read.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    output(&["metadata", "--locked", "--format-version", "1", "--filter-platform", &platform])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_read() {
        let ok =
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.40s";
        assert_eq!(closing_line(ok), Some(Tests { passed: 3, failed: 0 }));
        let bad = "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(closing_line(bad), Some(Tests { passed: 2, failed: 1 }));
        assert_eq!(closing_line("test a ... ok"), None);
    }
}
