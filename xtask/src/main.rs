//! The project's chores, behind `make`.
//!
//! What lives here: which suites there are and in what order, the table at their end, the rules every file of
//! the repository keeps, and the check of licences. What must not: anything a user of Capstan runs, and any
//! heavy dependency, because this is the first thing a new machine compiles.

mod agent;
mod bench;
mod borders;
mod cargo;
mod demo;
mod licences;
mod plan;
mod release;
mod static_build;
mod suite;
mod table;
mod tidy;

use anyhow::{Result, bail};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- demo [--real] | test [--all | SUITE…] | check | bench [NAME…] | tools | agent | release VERSION | tidy | licences";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<ExitCode> {
    match words {
        ["check"] => Ok(suite::run_all(&plan::check())),
        ["test"] => Ok(suite::run_all(&plan::test())),
        ["test", "--all"] => Ok(suite::run_all(&plan::test_all())),
        ["test", names @ ..] => Ok(suite::run_all(&plan::only(names)?)),
        ["tools"] => done(tools()),
        ["agent"] => done(agent::build().map(drop)),
        ["release", version] => done(release::run(version)),
        ["release"] => bail!("say which version: make release VERSION=v{}", env!("CARGO_PKG_VERSION")),
        ["demo"] => done(demo::run()),
        ["demo", "--real"] => done(demo::run_real()),
        ["bench", names @ ..] => done(bench::run(names)),
        ["tidy"] => done(tidy::check()),
        ["licences"] => done(licences::check()),
        _ => bail!("{USAGE}"),
    }
}

fn done(result: Result<()>) -> Result<ExitCode> {
    result.map(|()| ExitCode::SUCCESS)
}

/// Builds every third-party program, then says where each one is.
fn tools() -> Result<()> {
    capstan_tools::build_all(&capstan_tools::to_stderr)?;
    capstan_tools::build_machines(&capstan_tools::to_stderr)?;
    for status in capstan_tools::list()? {
        let origin = if status.own { "the machine's own" } else { status.version };
        eprintln!("  {:<26} {:<18} {}", status.program.name(), origin, status.path.display());
    }
    // What machines need is left out for somebody who is not root, and the build has said so.
    for version in capstan_tools::K3S_VERSIONS {
        if let Ok(bundle) = capstan_tools::k3s_bundle(version) {
            eprintln!("  {:<26} {version:<18} {}", "k3s", bundle.program.path.display());
        }
    }
    if let Ok(rootfs) = capstan_tools::machine_rootfs() {
        eprintln!("  {:<26} {:<18} {}", "machine root file system", "", rootfs.display());
    }
    Ok(())
}
