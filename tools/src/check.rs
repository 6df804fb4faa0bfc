//! Runs a program to see that it runs, and that it is the version it should be.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::program::Program;

/// Generous: a cold disk, a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Fails unless the file at `path` runs and says the pinned version.
pub(crate) fn version(program: Program, path: &Path) -> Result<()> {
    let check = program.version_check();
    let (success, output) = run(path, check.args)?;
    ensure!(
        success || !check.must_succeed,
        "{} {} failed: {}",
        path.display(),
        check.args.join(" "),
        output.trim()
    );
    let wanted = program.version().trim_start_matches('v');
    ensure!(
        says(&output, wanted),
        "{} does not call itself {wanted}; it says: {}",
        path.display(),
        output.trim()
    );
    Ok(())
}

/// Fails unless the file at `path` runs and says `wanted` when asked for its version.
pub(crate) fn stamped(path: &Path, wanted: &str) -> Result<()> {
    let (success, output) = run(path, &["--version"])?;
    ensure!(
        success && says(&output, wanted),
        "{} does not call itself {wanted}; it says: {}",
        path.display(),
        output.trim()
    );
    Ok(())
}

/// Whether the machine's own kubectl runs.
pub(crate) fn runs(program: Program, path: &Path) -> bool {
    let scratch = std::env::temp_dir().join(format!("capstan-check-{}", std::process::id()));
    run_logged(path, program.version_check().args, &scratch).is_ok_and(|(success, _)| success)
}

/// `1.14.0` must stand alone: not inside `11.14.0` or `1.14.01`.
fn says(output: &str, version: &str) -> bool {
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    output.match_indices(version).any(|(at, _)| {
        !digit(output[..at].chars().next_back()) && !digit(output[at + version.len()..].chars().next())
    })
}

fn run(path: &Path, args: &[&str]) -> Result<(bool, String)> {
    run_logged(path, args, &path.with_extension("check"))
}

/// Output goes to a file and not to pipes: a deadline is then a loop, without threads.
fn run_logged(path: &Path, args: &[&str], scratch: &Path) -> Result<(bool, String)> {
    let log = File::create(scratch).with_context(|| format!("cannot write {}", scratch.display()))?;
    let result = run_to(path, args, log, scratch);
    let _ = fs::remove_file(scratch);
    result
}

fn run_to(path: &Path, args: &[&str], log: File, scratch: &Path) -> Result<(bool, String)> {
    let errors = log.try_clone().context("cannot share a log file")?;
    let mut child = Command::new(path)
        .args(args)
        // clusterctl would ask the network for a newer one after every command.
        .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .spawn()
        .with_context(|| format!("cannot run {}", path.display()))?;
    let deadline = Instant::now() + DEADLINE;
    let status = loop {
        if let Some(status) = child.try_wait().context("cannot wait for a child")? {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            bail!("{} {} did not end within {} s", path.display(), args.join(" "), DEADLINE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let output = fs::read(scratch).with_context(|| format!("cannot read {}", scratch.display()))?;
    Ok((status.success(), String::from_utf8_lossy(&output).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_stands_alone() {
        assert!(says("Version: v1.14.0 (git commit: )", "1.14.0"));
        assert!(says("etcd Version: 3.6.16\nGit SHA: x", "3.6.16"));
        assert!(says("1.14.0", "1.14.0"));
        assert!(!says("v1.14.01", "1.14.0"));
        assert!(!says("v11.14.0", "1.14.0"));
        assert!(!says("", "1.14.0"));
    }

    #[test]
    fn output_and_failure_are_distinguished() {
        let scratch = std::env::temp_dir().join(format!("capstan-check-test-{}", std::process::id()));
        let run = |script| run_logged(Path::new("/bin/sh"), &["-c", script], &scratch).expect("sh runs");
        assert_eq!(run("echo out; echo err >&2"), (true, "out\nerr\n".to_owned()));
        assert_eq!(run("echo bad; exit 3"), (false, "bad\n".to_owned()));
        assert!(!scratch.exists());
        assert!(!runs(Program::Kubectl, Path::new("/dev/null/none")));
    }
}
