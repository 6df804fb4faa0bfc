//! The project's chores, behind `make`.
//!
//! What lives here: which suites there are, how they are scheduled and reported, the rules every file of the repository
//! keeps, and the check of licences. What must not: anything a user of Capstan runs, and any heavy dependency, because
//! this is the first thing a new machine compiles.

mod agent;
mod bench;
mod book;
mod borders;
mod cargo;
mod claims;
mod demo;
mod display;
mod durations;
mod fuzz;
mod install;
mod licences;
mod links;
mod log;
mod module_cycles;
mod paths;
mod plan;
mod recording;
mod release;
mod run;
mod schedule;
mod static_build;
mod suite;
mod table;
mod tidy;
mod words;

use anyhow::{Result, bail};
use std::process::ExitCode;

use log::Log;

const USAGE: &str = "usage: cargo run --bin xtask -- demo --real | test [--all | SUITE…] | check | bench [NAME…] | \
                     fuzz [TARGET [SECONDS | FILE] | merge [TARGET…] | line FILE] | \
                     tools [programs | machines] | agent | recording | release VERSION | book | tidy | words [--lower] | licences";

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
    let log = &Log::Terminal;
    match words {
        ["check"] => run::all(&plan::check(), ""),
        ["test"] => run::all(&plan::test(), &plan::not_covered()),
        ["test", "--all"] => run::all(&plan::test_all(), ""),
        ["test", names @ ..] => run::all(&plan::only(names)?, ""),
        ["tools"] => done(tools()),
        ["tools", "programs"] => done(capstan_tools::build_all(&capstan_tools::to_stderr)),
        ["tools", "conformance"] => {
            let programs = [capstan_tools::Program::E2eTests];
            done(capstan_tools::build(&programs, &capstan_tools::to_stderr))
        }
        ["tools", "system-agent"] => {
            let programs = [capstan_tools::Program::SystemAgent];
            done(capstan_tools::build(&programs, &capstan_tools::to_stderr))
        }
        ["tools", "machines"] => done(capstan_tools::build_machines(&capstan_tools::to_stderr)),
        ["agent"] => done(agent::build(log).map(drop)),
        ["release", version] => done(release::run(version)),
        ["release"] => bail!("name the version: make release VERSION=v{}", env!("CARGO_PKG_VERSION")),
        ["demo", "--real"] => done(demo::run()),
        ["bench", names @ ..] => done(bench::run(names)),
        ["fuzz", words @ ..] => done(fuzz::run(words)),
        ["recording"] => done(recording::run(log)),
        ["book"] => done(book::build(log)),
        ["tidy"] => done(tidy::check(log)),
        ["words"] => done(words::check(log)),
        ["words", "--lower"] => done(words::lower()),
        ["licences"] => done(licences::check(log)),
        _ => bail!("{USAGE}"),
    }
}

fn done(result: Result<()>) -> Result<ExitCode> {
    result.map(|()| ExitCode::SUCCESS)
}

/// Builds every third-party program, then says where each one is.
fn tools() -> Result<()> {
    capstan_tools::build_all(&capstan_tools::to_stderr)?;
    capstan_tools::build(&[capstan_tools::Program::SystemAgent], &capstan_tools::to_stderr)?;
    capstan_tools::build_machines(&capstan_tools::to_stderr)?;
    for status in capstan_tools::list()? {
        let origin = if status.own { "the machine's own" } else { status.version };
        eprintln!("  {:<26} {:<18} {}", status.program.name(), origin, status.path.display());
    }
    // What machines need is left out where the user is not root, and the build has said so.
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
