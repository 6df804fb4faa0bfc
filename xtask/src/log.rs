//! Where a suite's output goes: its own file, or the terminal for chores that are not suites.

use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The output of a suite. Programs that it starts write to the same place, in the order in which they print.
#[derive(Clone, Debug)]
pub(crate) enum Log {
    Terminal,
    File(PathBuf),
}

impl Log {
    /// An empty file.
    pub(crate) fn create(path: PathBuf) -> Result<Self> {
        File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self::File(path))
    }

    /// For the standard output or standard error of a program.
    pub(crate) fn stdio(&self) -> Result<Stdio> {
        match self {
            Self::Terminal => Ok(Stdio::inherit()),
            Self::File(path) => Ok(append(path)?.into()),
        }
    }

    /// Adds a line. A line that cannot be written is lost: the result of the suite does not depend on it.
    pub(crate) fn line(&self, line: &str) {
        match self {
            Self::Terminal => eprintln!("{line}"),
            Self::File(path) => {
                _ = append(path).and_then(|mut file| Ok(writeln!(file, "{line}")?));
            }
        }
    }

    /// How much there is.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Terminal => 0,
            Self::File(path) => fs::metadata(path).map_or(0, |metadata| metadata.len()),
        }
    }

    /// What was written after the first `offset` bytes. Not all that programs print is UTF-8.
    pub(crate) fn after(&self, offset: u64) -> Result<String> {
        let Self::File(path) = self else { return Ok(String::new()) };
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(offset))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().with_context(|| format!("cannot read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The last line that is not empty.
    pub(crate) fn last_line(&self) -> String {
        const ENOUGH: u64 = 4096;
        let text = self.after(self.len().saturating_sub(ENOUGH)).unwrap_or_default();
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
    }
}

fn append(path: &Path) -> Result<File> {
    File::options().append(true).open(path).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn programs_and_lines_share_a_file() {
        let path = std::env::temp_dir().join(format!("xtask-log-test-{}", std::process::id()));
        let log = Log::create(path.clone()).expect("created");
        log.line("one");
        let mut command = Command::new("sh");
        command.args(["-c", "echo two; echo three >&2; printf 'f\\377our\\n\\n'"]);
        command.stdout(log.stdio().expect("opened")).stderr(log.stdio().expect("opened"));
        assert!(command.status().expect("runs").success());
        assert_eq!(log.after(0).expect("read"), "one\ntwo\nthree\nf\u{fffd}our\n\n");
        assert_eq!(log.after(4).expect("read"), "two\nthree\nf\u{fffd}our\n\n");
        assert_eq!(log.last_line(), "f\u{fffd}our");
        fs::remove_file(path).expect("removed");
    }
}
