//! What is measured, one thing after the other. Each prints its figures and their limits; `docs/benchmarks.md` keeps them.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use capstan_tools::{Program, build, build_all, build_machines, locate, to_stderr};

use crate::{agent, cargo};

type Bench = fn() -> Result<()>;

const BENCHES: [(&str, Bench); 5] = [
    ("planner", planner),
    ("plane", plane),
    ("agent", at_rest),
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
    cargo::succeed(&["bench", "--locked", "--package=capstan-benches", "--bench=planner"]).map(drop)
}

/// The embedded plane in the profile that users get, beside kube-apiserver and etcd.
fn plane() -> Result<()> {
    build(&[Program::Etcd, Program::KubeApiserver], &to_stderr)?;
    with_release_build("plane")
}

/// Many clusters: Capstan whole, and our core beside upstream's, in the profile that users get.
fn fleet() -> Result<()> {
    build_all(&to_stderr)?;
    with_release_build("fleet")
}

/// Runs a benchmark of the program `capstan` as users get it.
fn with_release_build(bench: &str) -> Result<()> {
    // Of the workspace, as the bench below, so that third-party crates are compiled once for both.
    let words = ["build", "--release", "--locked", "--workspace", "--bin=capstan", "--message-format=json"];
    let capstan = built(&cargo::output(&words)?).context("cargo did not say where it put capstan")?;
    cargo::succeed_with(
        &["bench", "--locked", "--workspace", "--features=capstan-benches/real", &format!("--bench={bench}")],
        &[("CAPSTAN_BINARY", capstan.as_path())],
    )
    .map(drop)
}

/// The program that cargo's messages name.
fn built(messages: &[u8]) -> Option<PathBuf> {
    let text = String::from_utf8_lossy(messages);
    let after = text.rsplit_once(r#""executable":""#)?.1;
    Some(after.split_once('"')?.0.into())
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
