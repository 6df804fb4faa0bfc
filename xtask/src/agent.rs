//! The agent as it is shipped: one static binary, as small as it gets.

use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

use crate::log::Log;
use crate::paths::root;
use crate::static_build::{self, Shipped};

/// Every machine carries it, so it must stay small.
pub(crate) const AGENT: Shipped = Shipped {
    package: "capstan-agentd",
    name: "capstan-agent",
    profile: "agent",
    most_bytes: 15 * 1024 * 1024,
};

/// Builds it and says where it is: `target/agent/capstan-agent`.
pub(crate) fn build(log: &Log) -> Result<PathBuf> {
    let root = root()?;
    // A folder of its own: built with other flags, and by tests while cargo holds the lock of the usual one.
    let built = static_build::build(&AGENT, &root.join("target/static"), log)?;
    let place = root.join("target/agent/capstan-agent");
    fs::create_dir_all(root.join("target/agent")).context("cannot make target/agent")?;
    // By rename: a program that runs the old file keeps it.
    let new = place.with_extension("new");
    let bytes = fs::copy(&built, &new).context("cannot copy the agent")?;
    capstan_files::publish(&new, &place).context("cannot put the agent in its place")?;
    log.line(&format!("  {} ({:.1} MB, static)", place.display(), bytes as f64 / 1e6));
    Ok(place)
}
