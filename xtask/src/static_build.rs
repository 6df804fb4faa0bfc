//! Programs as they are shipped: static, and the same bytes wherever they are built.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};

use crate::log::Log;
use crate::{cargo, paths};

/// A program of the workspace.
pub(crate) struct Shipped {
    pub(crate) package: &'static str,
    pub(crate) name: &'static str,
    pub(crate) profile: &'static str,
    /// More than this is a mistake.
    pub(crate) most_bytes: u64,
}

/// Builds it below `target`, looks whether it is what it should be, and says where it is.
pub(crate) fn build(shipped: &Shipped, target: &Path, log: &Log) -> Result<PathBuf> {
    let root = paths::root()?;
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let status = cargo::command(&["build", "--locked"], log)?
        .args([&format!("--profile={}", shipped.profile), &format!("--package={}", shipped.package)])
        .arg(format!("--bin={}", shipped.name))
        // Named, so that only what runs on the machine is linked statically, and no build script or macro.
        .arg(format!("--target={platform}"))
        .arg("--target-dir")
        .arg(target)
        .env("RUSTFLAGS", rust_flags(root, target)?)
        // Half-finished work of another time would be in the bytes.
        .env("CARGO_INCREMENTAL", "0")
        // What C compilers put in place of the time.
        .env("SOURCE_DATE_EPOCH", "0")
        .current_dir(root)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "{} cannot be built", shipped.name);
    let built = target.join(platform).join(shipped.profile).join(shipped.name);
    let bytes = fs::read(&built).with_context(|| format!("cannot read {}", built.display()))?;
    ensure!(
        bytes.len() as u64 <= shipped.most_bytes,
        "{} has {} bytes, and {} is the most",
        shipped.name,
        bytes.len(),
        shipped.most_bytes
    );
    if wants_interpreter(&bytes)? {
        bail!("{} is not static: it would need the machine's own C library", shipped.name);
    }
    Ok(built)
}

/// Static, and without the names of folders that differ from one machine to another.
fn rust_flags(root: &Path, target: &Path) -> Result<String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let home = home.context("cargo has no folder")?;
    // The later one wins where several fit, and the target folder may lie in the tree.
    let folders = [(root, "/capstan"), (home.as_path(), "/cargo"), (target, "/target")];
    let mut flags = "-C target-feature=+crt-static".to_owned();
    for (folder, name) in folders {
        let folder = folder.to_str().with_context(|| format!("{} is not text", folder.display()))?;
        ensure!(!folder.contains(' '), "{folder} has a space in it, and cargo takes no such flag");
        flags.push_str(&format!(" --remap-path-prefix={folder}={name}"));
    }
    Ok(flags)
}

/// Whether an ELF file for 64 bits asks for a dynamic linker.
fn wants_interpreter(elf: &[u8]) -> Result<bool> {
    ensure!(elf.starts_with(b"\x7fELF\x02\x01"), "not an ELF file for 64 bits");
    let number = |at: usize, length: usize| -> Result<usize> {
        let bytes = elf.get(at..at + length).context("the ELF file is cut off")?;
        Ok(bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)))
    };
    let (table, size, count) = (number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?);
    const INTERPRETER: usize = 3;
    for index in 0..count {
        if number(table + index * size, 4)? == INTERPRETER {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_program_is_not_static() {
        let own = fs::read(std::env::current_exe().expect("a path")).expect("readable");
        assert!(wants_interpreter(&own).expect("an ELF file"));
        assert!(wants_interpreter(b"#!/bin/sh").is_err());
    }
}
