//! The cache folder: where it is, how it is laid out, who may write to it.
//!
//! A path in here holds either nothing or something whole: writers work beside the final name, under one
//! lock, and rename.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::pins::CLUSTER_API;
use crate::program::Program;
use crate::progress::Progress;

/// The variable that names the cache folder.
const OVERRIDE: &str = "CAPSTAN_TOOLS_DIR";

/// The folder that built programs and copied files are kept in.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The user's cache: `$CAPSTAN_TOOLS_DIR`, else `capstan/tools` under `$XDG_CACHE_HOME` or `~/.cache`.
    /// Nothing is created.
    pub fn of_user() -> Result<Self> {
        Self::from_environment(|name| std::env::var_os(name))
    }

    fn from_environment(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(root) = set(OVERRIDE) {
            let root = std::path::absolute(root).with_context(|| format!("${OVERRIDE}"))?;
            return Ok(Self { root });
        }
        // The XDG rules say that a relative path counts as not set.
        let user = set("XDG_CACHE_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| Some(set("HOME")?.join(".cache")))
            .with_context(|| format!("no cache folder: set HOME, XDG_CACHE_HOME or {OVERRIDE}"))?;
        Ok(Self { root: user.join("capstan").join("tools") })
    }

    /// Its path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where `program` is once it is built: a folder for each name, version and recipe.
    pub fn path_of(&self, program: Program) -> PathBuf {
        let build = format!("{}-{}", program.version(), &program.recipe_digest()[..8]);
        self.root.join(program.name()).join(build).join(program.name())
    }

    /// The folder of the copied CRD files.
    pub(crate) fn crds(&self) -> PathBuf {
        let digest = format!("{:016x}", CLUSTER_API.digest());
        self.root.join("upstream-crds").join(format!("{}-{}", CLUSTER_API.version, &digest[..8]))
    }

    /// Keeps other builders out until the file is dropped, by this process's death at the latest.
    pub(crate) fn lock(&self, progress: Progress<'_>) -> Result<File> {
        let path = self.root.join(".lock");
        fs::create_dir_all(&self.root)
            .with_context(|| format!("cannot make the cache folder {}", self.root.display()))?;
        let file = File::create(&path).with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                progress(&format!("waiting for another build in {}", self.root.display()));
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        Ok(file)
    }
}

/// Gives the finished `partial` its final name, durably: after a crash there is the whole of it or nothing.
pub(crate) fn publish(partial: &Path, path: &Path) -> Result<()> {
    capstan_files::publish(partial, path)
        .map_err(|error| error.source)
        .with_context(|| format!("cannot move {} to {}", partial.display(), path.display()))
}

/// Removes what a build that was killed has left in `folder`.
pub(crate) fn remove_partials(folder: &Path) -> Result<()> {
    let remove = || -> std::io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != "partial") {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(path)?,
                false => fs::remove_file(path)?,
            }
        }
        Ok(())
    };
    remove().with_context(|| format!("cannot clean {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(variables: &[(&str, &str)]) -> Result<PathBuf> {
        let lookup = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, v)| v.into());
        Cache::from_environment(lookup).map(|cache| cache.root)
    }

    #[test]
    fn the_folder_is_the_users_and_can_be_overridden() {
        let home = ("HOME", "/home/me");
        let xdg = ("XDG_CACHE_HOME", "/var/cache/me");
        assert_eq!(root(&[home]).expect("home"), Path::new("/home/me/.cache/capstan/tools"));
        assert_eq!(root(&[home, xdg]).expect("xdg"), Path::new("/var/cache/me/capstan/tools"));
        assert_eq!(root(&[home, xdg, (OVERRIDE, "/opt/tools")]).expect("ours"), Path::new("/opt/tools"));
    }

    #[test]
    fn empty_and_relative_variables_do_not_count() {
        let home = ("HOME", "/home/me");
        let expected = Path::new("/home/me/.cache/capstan/tools");
        assert_eq!(root(&[home, ("XDG_CACHE_HOME", "")]).expect("empty"), expected);
        assert_eq!(root(&[home, ("XDG_CACHE_HOME", "cache")]).expect("relative"), expected);
        assert!(root(&[(OVERRIDE, "tools")]).expect("made absolute").is_absolute());
        assert!(root(&[]).expect_err("nowhere").to_string().contains(OVERRIDE));
    }

    #[test]
    fn each_version_and_recipe_has_its_own_folder() {
        let cache = Cache { root: "/c".into() };
        let path = cache.path_of(Program::Etcd);
        let folder =
            path.parent().and_then(Path::file_name).expect("a folder").to_string_lossy().into_owned();
        assert!(path.starts_with("/c/etcd") && path.ends_with("etcd"), "{}", path.display());
        assert!(folder.starts_with(&format!("{}-", Program::Etcd.version())), "{folder}");
        assert!(folder.ends_with(&Program::Etcd.recipe_digest()[..8]), "{folder}");
    }
}
