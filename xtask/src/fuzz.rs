//! Coverage-guided fuzzing: builds the fuzzer with instrumentation, runs its targets, and says how to keep an input that fails.
//!
//! The targets and the kept inputs are in `crates/fuzz`. A search with a new seed begins with what earlier searches have found
//! (`target/fuzz/NAME/found`). A search with a given seed begins with the kept inputs only, so that it tries nearly the same inputs
//! everywhere, more of them on a faster machine: a change must not fail because of an old bug that it does not touch.

use anyhow::{Context, Result, bail, ensure};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::log::Log;
use crate::suite::Tests;
use crate::{cargo, paths};

/// Name of the test program of `crates/fuzz`.
const PROGRAM: &str = "libfuzzer";

/// Names of the files that libFuzzer writes for an input that fails begin with one of these.
const FAILURES: [&str; 4] = ["crash-", "timeout-", "oom-", "leak-"];

/// The stack of a worker of the product, in KiB: a deep recursion must fail here, too.
const STACK: &str = "2048";

/// How a suite runs the targets.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// For each target.
    pub(crate) seconds: u32,
    /// Targets that run side by side.
    pub(crate) at_once: usize,
    pub(crate) seed: Seed,
}

/// Where a search begins.
#[derive(Clone, Copy)]
pub(crate) enum Seed {
    /// With a new seed, and with what earlier searches have found.
    Fresh,
    /// With this seed, and with the kept inputs only.
    Given(u32),
}

/// Builds the fuzzer. All crates of the workspace that it uses are instrumented; third-party crates are those of the tests.
pub(crate) fn build(log: &Log) -> Result<PathBuf> {
    let words = [
        "build",
        "--locked",
        "--workspace",
        "--features=capstan-fuzz/libfuzzer",
        "--test=libfuzzer",
        "--message-format=json-render-diagnostics",
    ];
    let wrapper = paths::root()?.join("tools/fuzz-rustc.sh");
    let messages = cargo::output_with(&words, &[("RUSTC_WORKSPACE_WRAPPER", wrapper.as_path())], log)?;
    let messages = String::from_utf8_lossy(&messages);
    cargo::executable(PROGRAM, "test", &messages).context("cargo did not print the path of the fuzzer")
}

/// Runs every target for some time.
pub(crate) fn suite(pace: Pace, log: &Log) -> Result<Tests> {
    let fuzzer = Fuzzer { program: build(log)?, folder: paths::target()?.join("fuzz") };
    let queue: Mutex<VecDeque<String>> = Mutex::new(fuzzer.targets()?.into());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || {
        let mut tests = Tests::default();
        while let Some(name) = next() {
            match fuzzer.search(&name, pace.seconds, pace.seed) {
                Ok(figures) => {
                    log.line(&format!("{name}: {figures}"));
                    tests.passed += 1;
                }
                Err(error) => {
                    log.line(&format!("{error:#}\n"));
                    tests.failed += 1;
                }
            }
        }
        tests
    };
    let all = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..pace.at_once.max(1)).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or(Tests { passed: 0, failed: 1 }))
            .collect::<Vec<_>>()
    });
    Ok(all.into_iter().fold(Tests::default(), |sum, more| Tests {
        passed: sum.passed + more.passed,
        failed: sum.failed + more.failed,
    }))
}

/// The chore: one target for some time or with one input, or work on the kept inputs.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let log = &Log::Terminal;
    let fuzzer = Fuzzer { program: build(log)?, folder: paths::target()?.join("fuzz") };
    let targets = fuzzer.targets()?;
    let known = |name: &str| {
        ensure!(
            targets.iter().any(|target| target == name),
            "there is no target {name}: use one of {}",
            targets.join(", ")
        );
        Ok(())
    };
    let search = |name: &str, seconds| {
        log.line(&format!("{name}: {seconds} s, log in {}", fuzzer.folder.join(name).join("log").display()));
        log.line(&format!("{name}: {}", fuzzer.search(name, seconds, Seed::Fresh)?));
        anyhow::Ok(())
    };
    match words {
        [] => targets.iter().for_each(|name| log.line(name)),
        ["merge", names @ ..] => {
            names.iter().try_for_each(|name| known(name))?;
            for name in targets.iter().filter(|name| names.is_empty() || names.contains(&name.as_str())) {
                log.line(&format!("{name}: {} inputs added", fuzzer.merge(name)?));
            }
        }
        ["line", file] => log.line(&fuzzer.line(Path::new(file))?),
        [name] => {
            known(name)?;
            search(name, 60)?;
        }
        [name, what] => {
            known(name)?;
            match what.parse() {
                Ok(seconds) => search(name, seconds)?,
                Err(_) => fuzzer.repeat(name, Path::new(what))?,
            }
        }
        _ => bail!("usage: fuzz [TARGET [SECONDS | FILE] | merge [TARGET…] | line FILE]"),
    }
    Ok(())
}

struct Fuzzer {
    program: PathBuf,
    /// A folder for each target.
    folder: PathBuf,
}

impl Fuzzer {
    fn targets(&self) -> Result<Vec<String>> {
        let text = self.printed("", &["targets".as_ref()])?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Searches for inputs that fail. Returns the figures of the run.
    fn search(&self, name: &str, seconds: u32, seed: Seed) -> Result<String> {
        let place = Place::prepare(self.folder.join(name))?;
        let kept = place.emptied("kept")?;
        self.printed(name, &["unpack".as_ref(), &kept])?;
        let (seed, found) = match seed {
            Seed::Fresh => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                (now.map_or(1, |time| time.subsec_nanos().max(1)), place.folder("found")?)
            }
            Seed::Given(seed) => (seed, place.emptied("repeated")?),
        };
        let options = [
            format!("-max_total_time={seconds}"),
            format!("-seed={seed}"),
            format!("-dict={}", paths::root()?.join("crates/fuzz/dictionary.txt").display()),
        ];
        let mut command = self.command(name, &place)?;
        command.args(LIMITS).args(options).arg(found).arg(kept);
        let status = place.run(&mut command)?;
        let log = place.log();
        if status.success() {
            let figures = figures(&log).unwrap_or_else(|| "no figures".to_owned());
            return Ok(format!("{figures}, -seed={seed}"));
        }
        bail!("{}", self.failure(name, &place, status, seed, &log)?)
    }

    /// What a person needs to keep the input and to see the failure again.
    fn failure(&self, name: &str, place: &Place, status: ExitStatus, seed: u32, log: &str) -> Result<String> {
        let input = place.failed().unwrap_or_else(|| place.0.join("last"));
        let line = self.line(&input)?;
        Ok(format!(
            "target {name} failed ({status}, -seed={seed}):\n{}\n\n\
             keep it as a line of crates/fuzz/corpus/{name}.txt: {line}\n\
             see it again: cargo run --locked --bin xtask -- fuzz {name} {}",
            tail(log),
            input.display()
        ))
    }

    /// Tries one input, on the terminal.
    fn repeat(&self, name: &str, input: &Path) -> Result<()> {
        let place = Place::prepare(self.folder.join(name))?;
        let status =
            self.command(name, &place)?.args(LIMITS).arg(input).status().context("cannot run the fuzzer")?;
        ensure!(status.success(), "target {name} failed ({status})");
        Ok(())
    }

    /// Adds to the kept inputs what reaches code that they do not reach.
    fn merge(&self, name: &str) -> Result<usize> {
        let place = Place::prepare(self.folder.join(name))?;
        let (found, merged) = (place.folder("found")?, place.emptied("merged")?);
        self.printed(name, &["unpack".as_ref(), &merged])?;
        let mut command = self.command(name, &place)?;
        command.args(LIMITS).arg("-merge=1").arg(&merged).arg(found);
        let status = place.run(&mut command)?;
        ensure!(status.success(), "cannot merge the inputs of {name} ({status}):\n{}", tail(&place.log()));
        let added = self.printed(name, &["pack".as_ref(), &merged])?;
        added.trim().parse().context("the fuzzer did not print how many inputs were added")
    }

    fn line(&self, input: &Path) -> Result<String> {
        Ok(self.printed("", &["line".as_ref(), input])?.trim_end().to_owned())
    }

    /// What the fuzzer prints about the kept inputs.
    fn printed(&self, name: &str, words: &[&Path]) -> Result<String> {
        let output = Command::new(&self.program).env("CAPSTAN_FUZZ_TARGET", name).args(words).output();
        let output = output.with_context(|| format!("cannot run {}", self.program.display()))?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        String::from_utf8(output.stdout).context("the fuzzer did not print text")
    }

    /// At a lower priority: the other suites wait most of the time, and must not wait longer because of this.
    fn command(&self, name: &str, place: &Place) -> Result<Command> {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -s \"$0\" && exec nice -n 5 \"$@\"", STACK]).arg(&self.program);
        command.arg(format!("-artifact_prefix={}/", place.0.display()));
        command.env("CAPSTAN_FUZZ_TARGET", name).env("CAPSTAN_FUZZ_LAST", place.0.join("last"));
        command.env("TMPDIR", place.emptied("temporary")?);
        Ok(command)
    }
}

/// For one input: seconds, many because other suites may use the processor meanwhile; and megabytes of the whole process.
const LIMITS: [&str; 3] = ["-timeout=60", "-rss_limit_mb=2048", "-detect_leaks=0"];

/// The folder of a target.
struct Place(PathBuf);

impl Place {
    fn prepare(folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self(folder))
    }

    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.0.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    fn emptied(&self, name: &str) -> Result<PathBuf> {
        let folder = self.0.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        self.folder(name)
    }

    fn run(&self, command: &mut Command) -> Result<ExitStatus> {
        for failed in self.failures() {
            fs::remove_file(&failed).with_context(|| format!("cannot remove {}", failed.display()))?;
        }
        let log = File::create(self.0.join("log")).context("cannot write the log of the fuzzer")?;
        let status =
            command.stdout(log.try_clone()?).stderr(log).status().context("cannot run the fuzzer")?;
        self.emptied("temporary")?;
        Ok(status)
    }

    /// What the fuzzer has printed. Not all of that is UTF-8.
    fn log(&self) -> String {
        fs::read(self.0.join("log")).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }

    fn failures(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.0).into_iter().flatten().flatten();
        files.filter(|file| is_failure(&file.file_name().to_string_lossy())).map(|file| file.path()).collect()
    }

    fn failed(&self) -> Option<PathBuf> {
        self.failures().pop()
    }
}

fn is_failure(file: &str) -> bool {
    FAILURES.iter().any(|start| file.starts_with(start))
}

/// The last statistics in a log of libFuzzer, in words: `#8192 DONE cov: 90 ft: 130 corp: 12/99b lim: 8 exec/s: 512 rss: 60Mb`.
fn figures(log: &str) -> Option<String> {
    let line = log.lines().rev().find(|line| line.starts_with('#') && line.contains(" cov: "))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).copied()
    };
    let inputs = words.first()?.trim_start_matches('#');
    let kept = after("corp:")?.split('/').next()?;
    Some(format!(
        "{inputs} inputs, {} branches reached by {kept} of them, {} inputs a second, {}",
        after("cov:")?,
        after("exec/s:")?,
        after("rss:")?
    ))
}

/// The end of a log without the progress of the search.
fn tail(log: &str) -> String {
    const LINES: usize = 60;
    let is_progress = |line: &&str| line.starts_with('#') && line.contains(" exec/s: ");
    let lines: Vec<&str> = log.lines().filter(|line| !is_progress(line)).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "INFO: Seed: 1\n\
        #2\tINITED cov: 80 ft: 81 corp: 1/1b exec/s: 0 rss: 50Mb\n\
        #8192\tDONE   cov: 90 ft: 130 corp: 12/99b lim: 8 exec/s: 512 rss: 60Mb\n\
        ###### Recommended dictionary. ######\n\
        Done 8192 runs in 16 second(s)\n";

    #[test]
    fn figures_are_those_of_the_end() {
        let expected = "8192 inputs, 90 branches reached by 12 of them, 512 inputs a second, 60Mb";
        assert_eq!(figures(LOG).as_deref(), Some(expected));
        assert_eq!(figures("INFO: Seed: 1\n"), None);
        assert_eq!(figures("#1 DONE cov: 1\n"), None);
    }

    #[test]
    fn the_end_of_a_log_is_what_went_wrong() {
        assert_eq!(
            tail(LOG),
            "INFO: Seed: 1\n###### Recommended dictionary. ######\nDone 8192 runs in 16 second(s)"
        );
        assert_eq!(tail(&"line\n".repeat(1000)).lines().count(), 60);
    }

    #[test]
    fn only_failures_are_failures() {
        for name in ["crash-0a", "timeout-0a", "oom-0a"] {
            assert!(is_failure(name), "{name}");
        }
        for name in ["slow-unit-0a", "found", "log", "last"] {
            assert!(!is_failure(name), "{name}");
        }
    }
}
