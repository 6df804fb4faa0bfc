//! Builds what is missing under the cache's lock: the programs of one Go module with one call.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::cache::{Cache, publish, remove_partials};
use crate::crds::UpstreamCrds;
use crate::go::Build;
use crate::program::Program;
use crate::progress::{Progress, took};
use crate::{check, go, images, k3s, rootfs, status};

/// Builds those of `programs` that are not in the cache. A program is in the cache only after it has run and printed
/// its version. After an interruption, the next call continues.
pub fn build(programs: &[Program], progress: Progress<'_>) -> Result<()> {
    let cache = Cache::of_user()?;
    let _lock = cache.lock(progress)?;
    build_missing(&cache, programs, progress)
}

/// What most tests need: upstream's CRDs, and every program that more than one suite or benchmark needs.
pub fn build_all(progress: Progress<'_>) -> Result<()> {
    let cache = Cache::of_user()?;
    let _lock = cache.lock(progress)?;
    UpstreamCrds::copy(&cache, progress)?;
    build_missing(&cache, &Program::ALL, progress)
}

/// What real machines need: k3s, and what they are made of. They need root themselves, so a user who is
/// not root can do without.
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

fn build_missing(cache: &Cache, programs: &[Program], progress: Progress<'_>) -> Result<()> {
    let missing = programs.iter().copied().filter(|program| !is_there(cache, *program, progress));
    groups(missing).iter().try_for_each(|group| build_group(cache, group, progress))
}

fn is_there(cache: &Cache, program: Program, progress: Progress<'_>) -> bool {
    let name = program.name();
    if cache.path_of(program).is_file() {
        progress(&format!("{name} {}: there", program.version()));
        return true;
    }
    let own = status::own(program).filter(|own| check::runs(program, own));
    if let Some(own) = &own {
        progress(&format!("{name}: the machine's own, {}", own.display()));
    }
    own.is_some()
}

/// Programs that one call of `go build` can make: of one module, with the same link flags, under different names.
fn groups(programs: impl Iterator<Item = Program>) -> Vec<Vec<Program>> {
    let mut groups: Vec<Vec<Program>> = Vec::new();
    for program in programs {
        let name = go::file_name(program.package());
        let fits = |group: &&mut Vec<Program>| {
            group.iter().all(|other| {
                other.module().dir() == program.module().dir()
                    && other.is_test() == program.is_test()
                    && other.ldflags() == program.ldflags()
                    && go::file_name(other.package()) != name
            })
        };
        match groups.iter_mut().find(fits) {
            Some(group) => group.push(program),
            None => groups.push(vec![program]),
        }
    }
    groups
}

fn build_group(cache: &Cache, group: &[Program], progress: Progress<'_>) -> Result<()> {
    let Some(first) = group.first() else { return Ok(()) };
    go::require(first.module())?;
    remove_partials(cache.root())?;
    // By process: a `go` that outlives its killed parent must not write into what we have checked.
    let folder = cache.root().join(format!("build-{}.partial", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let names: Vec<&str> = group.iter().map(|program| program.name()).collect();
    let label = format!("{} {}", names.join(", "), first.version());
    progress(&format!("{label}: building"));
    let started = Instant::now();
    let build = Build {
        label: &label,
        folder: first.module().dir(),
        packages: group.iter().map(|program| program.package()).collect(),
        ldflags: first.ldflags(),
        tags: "",
        is_test: first.is_test(),
        cgo: false,
    };
    build.run(&folder, progress)?;
    for &program in group {
        let suffix = if program.is_test() { ".test" } else { "" };
        let built = format!("{}{suffix}", go::file_name(program.package()));
        keep(cache, program, &folder.join(built))?;
    }
    fs::remove_dir(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    progress(&format!("{label}: built in {}", took(started.elapsed())));
    Ok(())
}

/// Puts a program that says the right version where it is looked for.
fn keep(cache: &Cache, program: Program, built: &Path) -> Result<()> {
    check::version(program, built)?;
    let path = cache.path_of(program);
    let folder = path.parent().context("a program has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    publish(built, &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_one_module_are_built_together_unless_their_names_collide() {
        let groups = groups(Program::ALL.into_iter());
        let group_of =
            |program| groups.iter().position(|group| group.contains(&program)).expect("in a group");
        assert_eq!(group_of(Program::KubeApiserver), group_of(Program::Kubectl));
        assert_eq!(group_of(Program::Clusterctl), group_of(Program::CapiCore));
        // Both are called kubeadm.
        assert_ne!(group_of(Program::CapiKubeadmBootstrap), group_of(Program::CapiKubeadmControlPlane));
        assert_ne!(group_of(Program::Etcd), group_of(Program::Kubectl));
        assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), Program::ALL.len());
    }
}
