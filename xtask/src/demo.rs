//! `make demo`: builds Capstan and shows the main job.

use anyhow::Result;

use crate::cargo;

pub(crate) fn run() -> Result<()> {
    cargo::succeed(&["run", "--quiet", "--locked", "--package", "capstan", "--", "demo"])?;
    Ok(())
}
