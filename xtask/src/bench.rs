//! What is measured, one thing after the other. Each prints its figures and their limits; `docs/benchmarks.md` keeps them.

use anyhow::{Result, bail};
use capstan_tools::{Program, build, build_all, build_machines, locate, to_stderr};
use std::path::Path;

use crate::log::Log;
use crate::{agent, cargo};

type Bench = fn() -> Result<()>;

const BENCHES: [(&str, Bench); 6] = [
    ("planner", planner),
    ("plane", plane),
    ("agent", at_rest),
    ("agents", many_agents),
    ("cluster", real_cluster),
    // The last one: a full run takes hours.
    ("fleet", fleet),
];

/// Measures everything there is, or only what is named.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    let known = BENCHES.map(|(name, _)| name);
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        bail!("nothing measures {unknown}: there are {}", known.join(", "));
    }
    let mut wanted = BENCHES.iter().filter(|(name, _)| names.is_empty() || names.contains(name));
    wanted.try_for_each(|(_, bench)| bench())
}

/// A thousand machines decided, in the profile that users get.
fn planner() -> Result<()> {
    cargo::succeed(&["bench", "--locked", "--package=capstan-benches", "--bench=planner"], &Log::Terminal)
        .map(drop)
}

/// The embedded plane in the profile that users get, beside kube-apiserver and etcd.
fn plane() -> Result<()> {
    build(&[Program::Etcd, Program::KubeApiserver], &to_stderr)?;
    with_release_build("plane", &[])
}

/// Many clusters: Capstan whole, and our core beside upstream's, in the profile that users get.
fn fleet() -> Result<()> {
    build_all(&to_stderr)?;
    // Whoever watches is as in tests: it is not what is measured, and its load is next to nothing.
    with_release_build("fleet", &["--profile=dev"])
}

/// Three thousand agents on one plane, both in the profile that users get.
fn many_agents() -> Result<()> {
    let agent = agent::build(&Log::Terminal)?;
    let environment = [("CAPSTAN_AGENT_BINARY", agent.as_path())];
    with_release_build_and("agents", &["--profile=dev"], &environment)
}

/// Runs a benchmark of the program `capstan` as users get it.
fn with_release_build(bench: &str, options: &[&str]) -> Result<()> {
    with_release_build_and(bench, options, &[])
}

fn with_release_build_and(bench: &str, options: &[&str], environment: &[(&str, &Path)]) -> Result<()> {
    // Of the workspace, as the bench below, so that third-party crates are compiled once for both.
    let capstan = cargo::build_program("capstan", &["--release"], &Log::Terminal)?;
    let bench = format!("--bench={bench}");
    let words = ["bench", "--locked", "--workspace", "--features=capstan-benches/real", &bench];
    cargo::succeed_with(
        &[&words[..], options].concat(),
        &[environment, &[("CAPSTAN_BINARY", capstan.as_path())]].concat(),
        &Log::Terminal,
    )
    .map(drop)
}

/// The agent as it is shipped, beside rancher/system-agent. The plane and whoever watches are as in tests: they are not
/// what is measured.
fn at_rest() -> Result<()> {
    let ours = agent::build(&Log::Terminal)?;
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
        &Log::Terminal,
    )
    .map(drop)
}

/// A real cluster on a real machine, beside the same k3s started by hand.
fn real_cluster() -> Result<()> {
    build_machines(&to_stderr)?;
    let words = ["test", "--locked", "--workspace", "--test=measure"];
    cargo::succeed(&[&words[..], &["--", "--nocapture"]].concat(), &Log::Terminal).map(drop)
}
