//! `make demo`: sets everything up and shows what works today.

use anyhow::Result;
use capstan_tools::Program;

use crate::cargo;

pub(crate) fn run() -> Result<()> {
    let needed = [Program::Etcd, Program::KubeApiserver, Program::KubeControllerManager, Program::Kubectl];
    capstan_tools::build(&needed, &capstan_tools::to_stderr)?;
    cargo::succeed(&[
        "run",
        "--quiet",
        "--locked",
        "--package",
        "capstan-tests",
        "--features",
        "real",
        "--example",
        "ground_floor",
    ])?;
    Ok(())
}
