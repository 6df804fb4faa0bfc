//! Runs `go`: is it there and new enough, build one program, find a module's folder.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::follow::{Listener, follow};
use crate::pins::{Module, major_minor};
use crate::progress::{Progress, took};

/// How many of the last lines of `go` an error repeats.
const TAIL: usize = 20;

fn go(folder: &Path, cgo: bool) -> Command {
    let mut go = Command::new("go");
    go.current_dir(folder)
        .env("CGO_ENABLED", if cgo { "1" } else { "0" })
        .env("GOFLAGS", "-mod=readonly -buildvcs=false")
        // A Go that is too old is an error of ours with a remedy, not a download of another one.
        .env("GOTOOLCHAIN", "local")
        .env("GOWORK", "off")
        .stdin(std::process::Stdio::null());
    go
}

/// Fails with a remedy where Go is missing or older than `module` asks for. Gives its version.
pub(crate) fn require(module: &Module) -> Result<String> {
    let remedy = || format!("install Go {} or newer and put `go` on the PATH", module.go);
    let output = go(&module.dir(), false)
        .args(["env", "GOVERSION"])
        .output()
        .with_context(|| format!("cannot run `go`: {}", remedy()))?;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let said = said.trim();
    ensure!(new_enough(said, module.go), "`go env GOVERSION` says {said:?}: {}", remedy());
    Ok(said.to_owned())
}

fn new_enough(found: &str, wanted: &str) -> bool {
    found.starts_with("go") && major_minor(found) >= major_minor(wanted) && major_minor(found).is_some()
}

/// Programs to compile with one call, so that packages are loaded once and one program is linked while the next is compiled.
pub(crate) struct Build<'a> {
    /// What people call them.
    pub(crate) label: &'a str,
    /// Where their `go.mod` is.
    pub(crate) folder: PathBuf,
    pub(crate) packages: Vec<&'a str>,
    pub(crate) ldflags: String,
    pub(crate) tags: &'a str,
    /// Whether they are the tests of their packages.
    pub(crate) is_test: bool,
    /// Whether there is C in them. They are linked statically all the same, so that they run on every machine.
    pub(crate) cgo: bool,
}

impl Build<'_> {
    /// Compiles into `output`: a file for one program, a folder that exists for several (see [`file_name`]).
    pub(crate) fn run(&self, output: &Path, progress: Progress<'_>) -> Result<()> {
        if self.is_test {
            // `go test` names no package that it compiles: this does, and keeps them for it.
            self.go(&["build", "-v"], None, progress)?;
            return self.go(&["test", "-c"], Some(output), progress);
        }
        self.go(&["build", "-v"], Some(output), progress)
    }

    fn go(&self, words: &[&str], output: Option<&Path>, progress: Progress<'_>) -> Result<()> {
        let mut command = go(&self.folder, self.cgo);
        // The linker drops what debuggers need, so the compiler need not make it: a tenth of the time.
        command.args(words).args(["-trimpath", "-gcflags=all=-dwarf=false"]);
        if !self.tags.is_empty() {
            command.args(["-tags", self.tags]);
        }
        command.args(["-ldflags", &self.ldflags]);
        if let Some(output) = output {
            command.arg("-o").arg(output);
        }
        command.args(&self.packages);
        let mut transcript = Transcript::default();
        let mut listener =
            Reporter { label: self.label, started: Instant::now(), transcript: &mut transcript };
        let status = follow(&mut command, &mut listener, progress).context("cannot run `go`")?;
        if !status.success() {
            bail!(
                "building {} failed ({status}); the last that go said:\n{}\n{}",
                self.label,
                transcript.tail(),
                transcript.remedy()
            );
        }
        Ok(())
    }
}

/// What `go build` calls the program of a package in a folder: the last part of its path that is not a major version.
pub(crate) fn file_name(package: &str) -> &str {
    let is_version = |part: &&str| {
        part.strip_prefix('v')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    package.rsplit('/').find(|part| !is_version(part)).unwrap_or(package)
}

struct Reporter<'a> {
    label: &'a str,
    started: Instant,
    transcript: &'a mut Transcript,
}

impl Listener for Reporter<'_> {
    fn hear(&mut self, line: String) {
        self.transcript.add(line);
    }

    fn report(&self) -> String {
        format!("{}: {}, {}", self.label, self.transcript, took(self.started.elapsed()))
    }
}

/// The folder of an upstream module, downloaded first where it has to be.
pub(crate) fn module_folder(module: &Module, upstream: &str) -> Result<PathBuf> {
    let run = |arguments: &[&str]| -> Result<String> {
        let output = go(&module.dir(), false).args(arguments).output().context("cannot run `go`")?;
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
            "run `make tools` again after that is fixed; what is built is kept"
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
    fn packages_are_counted_and_errors_are_kept() {
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
    fn programs_are_named_as_go_names_them() {
        assert_eq!(file_name("k8s.io/kubernetes/cmd/kubectl"), "kubectl");
        assert_eq!(file_name("go.etcd.io/etcd/server/v3"), "server");
        assert_eq!(file_name("a.b/c/vet"), "vet");
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
