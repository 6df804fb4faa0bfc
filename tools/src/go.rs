//! Runs `go`: is it there and new enough, build one program, find a module's folder.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::pins::{Module, major_minor};
use crate::program::Program;
use crate::progress::{Progress, took};

/// How long a build may be silent.
const TICK: Duration = Duration::from_secs(15);
/// How many of the last lines of `go` an error repeats.
const TAIL: usize = 20;

fn go(module: &Module) -> Command {
    let mut go = Command::new("go");
    go.current_dir(module.dir())
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=readonly -buildvcs=false")
        // A Go that is too old is an error of ours with a remedy, not a download of another one.
        .env("GOTOOLCHAIN", "local")
        .env("GOWORK", "off")
        .stdin(Stdio::null());
    go
}

/// Fails with a remedy where Go is missing or older than `module` asks for.
pub(crate) fn require(module: &Module) -> Result<()> {
    let remedy = || format!("install Go {} or newer and put `go` on the PATH", module.go);
    let output = go(module)
        .args(["env", "GOVERSION"])
        .output()
        .with_context(|| format!("cannot run `go`: {}", remedy()))?;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(new_enough(said.trim(), module.go), "`go env GOVERSION` says {:?}: {}", said.trim(), remedy());
    Ok(())
}

fn new_enough(found: &str, wanted: &str) -> bool {
    found.starts_with("go") && major_minor(found) >= major_minor(wanted) && major_minor(found).is_some()
}

/// Compiles `program` into `output`.
pub(crate) fn build(program: Program, output: &Path, progress: Progress<'_>) -> Result<()> {
    let mut command = go(program.module());
    command
        .args(["build", "-v", "-trimpath", "-ldflags", &program.ldflags(), "-o"])
        .arg(output)
        .arg(program.package())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn().context("cannot run `go`")?;
    let stderr = child.stderr.take().context("go's standard error is not a pipe")?;
    let (sender, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });

    let mut transcript = Transcript::default();
    let mut next_tick = started + TICK;
    loop {
        match lines.recv_timeout(next_tick.saturating_duration_since(Instant::now())) {
            Ok(line) => transcript.add(line),
            Err(RecvTimeoutError::Timeout) => {
                progress(&format!("{}: {transcript}, {}", program.name(), took(started.elapsed())));
                next_tick = Instant::now() + TICK;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().context("cannot wait for `go`")?;
    let _ = reader.join();
    if !status.success() {
        bail!(
            "building {} {} failed ({status}); the last that go said:\n{}\n{}",
            program.name(),
            program.version(),
            transcript.tail(),
            transcript.remedy()
        );
    }
    Ok(())
}

/// The folder of an upstream module, downloaded first where it has to be.
pub(crate) fn module_folder(module: &Module, upstream: &str) -> Result<PathBuf> {
    let run = |arguments: &[&str]| -> Result<String> {
        let output = go(module).args(arguments).output().context("cannot run `go`")?;
        ensure!(
            output.status.success(),
            "`go {}` failed ({}): {}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    run(&["mod", "download", upstream])?;
    let folder = PathBuf::from(run(&["list", "-m", "-f", "{{.Dir}}", upstream])?);
    ensure!(folder.is_dir(), "go names no folder for the module {upstream}");
    Ok(folder)
}

/// What `go build -v` has said so far: a line for each package, others for trouble.
#[derive(Default)]
struct Transcript {
    packages: usize,
    downloads: usize,
    last: VecDeque<String>,
}

impl Transcript {
    fn add(&mut self, line: String) {
        if line.starts_with("go: downloading ") {
            self.downloads += 1;
        } else if is_package(&line) {
            self.packages += 1;
        } else {
            if self.last.len() == TAIL {
                self.last.pop_front();
            }
            self.last.push_back(line);
        }
    }

    fn tail(&self) -> String {
        if self.last.is_empty() {
            return "  (nothing)".to_owned();
        }
        self.last.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
    }

    fn remedy(&self) -> &'static str {
        let said = |words: &[&str]| self.last.iter().any(|line| words.iter().any(|word| line.contains(word)));
        if said(&["no space left on device"]) {
            "free some disk space (Go's build cache: `go env GOCACHE`) and run `make tools` again"
        } else if said(&["signal: killed", "cannot allocate memory"]) {
            "there was too little memory: stop other work and run `make tools` again; what is built is kept"
        } else if said(&["dial tcp", "i/o timeout", "proxyconnect", "connection refused", "TLS handshake"]) {
            "the Go modules could not be fetched: check the network and `go env GOPROXY`, \
             then run `make tools` again; what is built is kept"
        } else {
            "run `make tools` again once that is mended; what is built is kept"
        }
    }
}

impl std::fmt::Display for Transcript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.downloads > 0 {
            write!(f, "{} modules fetched, ", self.downloads)?;
        }
        write!(f, "{} packages compiled", self.packages)
    }
}

/// A line of `go build -v` that names a package: one word, and not the start of a message.
fn is_package(line: &str) -> bool {
    !line.is_empty() && !line.contains(char::is_whitespace) && !line.ends_with(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_counted_and_trouble_is_kept() {
        let mut transcript = Transcript::default();
        for line in
            ["go: downloading a.b/c v1.0.0", "internal/abi", "k8s.io/api/core/v1", "# a.b/c", "x.go:1: bad"]
        {
            transcript.add(line.to_owned());
        }
        assert_eq!(transcript.to_string(), "1 modules fetched, 2 packages compiled");
        assert_eq!(transcript.tail(), "  # a.b/c\n  x.go:1: bad");
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let mut transcript = Transcript::default();
        for number in 0..TAIL + 5 {
            transcript.add(format!("line {number}"));
        }
        assert_eq!(transcript.last.len(), TAIL);
        assert!(transcript.tail().starts_with("  line 5\n"));
    }

    #[test]
    fn an_error_comes_with_what_to_do() {
        let mut transcript = Transcript::default();
        assert!(transcript.remedy().contains("make tools"));
        transcript.add("write /x: no space left on device".to_owned());
        assert!(transcript.remedy().contains("disk space"));
    }

    #[test]
    fn an_older_go_is_refused() {
        assert!(new_enough("go1.26.8", "1.26.0"));
        assert!(new_enough("go1.27rc1", "1.26.0"));
        assert!(!new_enough("go1.25.9", "1.26.0"));
        assert!(!new_enough("go: go.mod requires go >= 1.26.0", "1.26.0"));
        assert!(!new_enough("", "1.26.0"));
    }
}
