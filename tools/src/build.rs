//! Builds what is missing, one program after the other, under the cache's lock.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::cache::{Cache, publish};
use crate::crds::UpstreamCrds;
use crate::program::Program;
use crate::progress::{Progress, took};
use crate::{check, go, status};

/// Builds those of `programs` that are not in the cache. A program is there only once it has run and said
/// its version; stopped at any point, the next call goes on where this one was.
pub fn build(programs: &[Program], progress: Progress<'_>) -> Result<()> {
    let cache = Cache::of_user()?;
    let _lock = cache.lock(progress)?;
    programs.iter().try_for_each(|&program| build_one(&cache, program, progress))
}

/// Everything that the tests need: every program and upstream's CRDs.
pub fn build_all(progress: Progress<'_>) -> Result<()> {
    let cache = Cache::of_user()?;
    let _lock = cache.lock(progress)?;
    UpstreamCrds::copy(&cache, progress)?;
    Program::ALL.iter().try_for_each(|&program| build_one(&cache, program, progress))
}

/// What a build that was killed has left.
fn remove_partials(folder: &Path) -> Result<()> {
    let remove = || -> std::io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "partial") {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    };
    remove().with_context(|| format!("cannot clean {}", folder.display()))
}

fn build_one(cache: &Cache, program: Program, progress: Progress<'_>) -> Result<()> {
    let (name, version) = (program.name(), program.version());
    let path = cache.path_of(program);
    if path.is_file() {
        progress(&format!("{name} {version}: there"));
        return Ok(());
    }
    if let Some(own) = status::own(program)
        && check::runs(program, &own)
    {
        progress(&format!("{name}: the machine's own, {}", own.display()));
        return Ok(());
    }
    go::require(program.module())?;
    let folder = path.parent().context("a program has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    remove_partials(folder)?;
    // By process: a `go` that outlives its killed parent must not write into what we have checked.
    let partial = path.with_extension(format!("{}.partial", std::process::id()));
    progress(&format!("{name} {version}: building"));
    let started = Instant::now();
    go::build(program, &partial, progress)?;
    check::version(program, &partial)?;
    publish(&partial, &path)?;
    progress(&format!("{name} {version}: built in {}", took(started.elapsed())));
    Ok(())
}
