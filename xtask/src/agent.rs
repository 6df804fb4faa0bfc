//! The agent as it is shipped: one static binary, as small as it gets.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a machine is asked to carry, at most.
const MOST_BYTES: u64 = 15 * 1024 * 1024;

/// Builds it, looks whether it is what it should be, and says where it is: `target/agent/capstan-agent`.
pub(crate) fn build() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has a parent folder")?;
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    // A folder of its own: built with other flags, and by tests while cargo holds the lock of the usual one.
    let target = root.join("target/static");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--locked", "--profile=agent", "--package=capstan-agentd", "--bin=capstan-agent"])
        // Named, so that only what runs on the machine is linked statically, and no build script or macro.
        .arg(format!("--target={platform}"))
        .arg("--target-dir")
        .arg(&target)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .current_dir(root)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the agent cannot be built");
    let built = target.join(platform).join("agent/capstan-agent");
    let bytes = fs::read(&built).with_context(|| format!("cannot read {}", built.display()))?;
    ensure!(
        bytes.len() as u64 <= MOST_BYTES,
        "the agent has {} bytes, and {MOST_BYTES} is the most",
        bytes.len()
    );
    if wants_interpreter(&bytes)? {
        bail!("the agent is not static: it would need the machine's own C library");
    }
    let place = root.join("target/agent/capstan-agent");
    fs::create_dir_all(root.join("target/agent")).context("cannot make target/agent")?;
    // By name, so that whoever runs the old one goes on running it.
    let new = place.with_extension("new");
    fs::copy(&built, &new)
        .and_then(|_| fs::rename(&new, &place))
        .context("cannot put the agent in its place")?;
    eprintln!("  {} ({:.1} MB, static)", place.display(), bytes.len() as f64 / 1e6);
    Ok(place)
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
