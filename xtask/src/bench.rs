//! What is measured, one thing after the other. Each prints its figures and their limits; `docs/benchmarks.md` keeps them.

use anyhow::Result;
use capstan_tools::{Program, build, build_machines, locate, to_stderr};

use crate::{agent, cargo};

/// Measures everything there is.
pub(crate) fn run() -> Result<()> {
    planner()?;
    at_rest()?;
    real_cluster()
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

/// A real cluster on a real machine, beside the same k3s started by hand.
fn real_cluster() -> Result<()> {
    build_machines(&to_stderr)?;
    let words = ["test", "--locked", "--workspace", "--features=capstan-tests/real", "--test=measure"];
    cargo::succeed(&[&words[..], &["--", "--nocapture"]].concat()).map(drop)
}
