//! Builds what is missing, one program after the other, under the cache's lock.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::cache::{Cache, publish, remove_partials};
use crate::crds::UpstreamCrds;
use crate::go::Build;
use crate::program::Program;
use crate::progress::{Progress, took};
use crate::{check, go, images, k3s, rootfs, status};

/// Builds those of `programs` that are not in the cache. A program is there only once it has run and said
/// its version; stopped at any point, the next call goes on where this one was.
pub fn build(programs: &[Program], progress: Progress<'_>) -> Result<()> {
    let cache = Cache::of_user()?;
    let _lock = cache.lock(progress)?;
    programs.iter().try_for_each(|&program| build_one(&cache, program, progress))
}

/// What most tests need: every program, and upstream's CRDs.
pub fn build_all(progress: Progress<'_>) -> Result<()> {
    let cache = Cache::of_user()?;
    let _lock = cache.lock(progress)?;
    UpstreamCrds::copy(&cache, progress)?;
    Program::ALL.iter().try_for_each(|&program| build_one(&cache, program, progress))
}

/// What real machines need: k3s, and what they are made of. They need root themselves, so that somebody who is not root
/// can do without.
pub fn build_machines(progress: Progress<'_>) -> Result<()> {
    let cache = &Cache::of_user()?;
    let _lock = cache.lock(progress)?;
    if !rootfs::is_root()? {
        progress("machines: left out, because they need root: run `make tools` as root to have them");
        return Ok(());
    }
    rootfs::make(cache, progress)?;
    images::make(cache, progress)?;
    k3s::make(cache, progress)
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
    let label = format!("{name} {version}");
    Build::of(program, &label).run(&partial, progress)?;
    check::version(program, &partial)?;
    publish(&partial, &path)?;
    progress(&format!("{name} {version}: built in {}", took(started.elapsed())));
    Ok(())
}
