//! What is there: finding a program, and the table of all of them.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::cache::Cache;
use crate::program::Program;

/// One line of the table of programs.
#[derive(Clone, Debug)]
pub struct Status {
    /// Which program.
    pub program: Program,
    /// The version that is pinned; a kubectl of the machine's own may be another.
    pub version: &'static str,
    /// Where it is, or would be.
    pub path: PathBuf,
    /// Whether there is something at that path.
    pub present: bool,
    /// Whether it is the machine's own, found on the PATH, and not built from the pins.
    pub own: bool,
}

/// Where `program` is, or an error that says how to get it. Nothing is run, so that a test may call this.
pub fn locate(program: Program) -> Result<PathBuf> {
    let status = status(&Cache::of_user()?, program);
    if !status.present {
        bail!("{} {} is not at {}: run `make tools`", program.name(), status.version, status.path.display());
    }
    Ok(status.path)
}

/// Every program, and whether it is there.
pub fn list() -> Result<Vec<Status>> {
    let cache = Cache::of_user()?;
    Ok(Program::ALL.iter().map(|&program| status(&cache, program)).collect())
}

pub(crate) fn status(cache: &Cache, program: Program) -> Status {
    let built = cache.path_of(program);
    let present = built.is_file();
    // A kubectl in the cache was built because the machine's own was missing or broken: it goes first.
    if !present && let Some(path) = own(program) {
        return Status { program, version: program.version(), path, present: true, own: true };
    }
    Status { program, version: program.version(), path: built, present, own: false }
}

/// The machine's own copy of a program that need not be the pinned one.
pub(crate) fn own(program: Program) -> Option<PathBuf> {
    if program != Program::Kubectl {
        return None;
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(program.name()))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
