//! Folders of the repository.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

pub(crate) fn root() -> Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has a parent folder")
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> Result<PathBuf> {
    let named = std::env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty());
    // A relative one is relative to where cargo was started, which is where make was.
    named.map_or_else(|| Ok(root()?.join("target")), |folder| Ok(std::path::absolute(folder)?))
}
