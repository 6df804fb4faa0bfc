//! What is measured, one thing after the other. Each prints its figures and their limits; `docs/benchmarks.md` keeps them.

use anyhow::Result;
use capstan_tools::{Program, build, locate, to_stderr};

use crate::{agent, cargo};

/// Measures everything there is.
pub(crate) fn run() -> Result<()> {
    planner()?;
    at_rest()
}

/// A thousand machines decided, in the profile that users get.
fn planner() -> Result<()> {
    cargo::succeed(&["bench", "--locked", "--package=capstan-benches", "--bench=planner"]).map(drop)
}

/// The agent as it is shipped, beside rancher/system-agent. The plane and whoever watches are as in tests: they are not
/// what is measured.
fn at_rest() -> Result<()> {
    let ours = agent::build()?;
    build(&[Program::SystemAgent], &to_stderr)?;
    let theirs = locate(Program::SystemAgent)?;
    let environment = [("CAPSTAN_AGENT_BINARY", ours.as_path()), ("CAPSTAN_SYSTEM_AGENT", theirs.as_path())];
    cargo::succeed_with(
        &[
            "bench",
            "--locked",
            "--profile=dev",
            "--workspace",
            "--features=capstan-benches/real",
            "--bench=agent",
        ],
        &environment,
    )
    .map(drop)
}
