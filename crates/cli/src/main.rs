//! The command line of Capstan.
//!
//! What lives here: arguments, what is printed, exit codes, and the wiring of the other crates into one
//! program. What must not: any decision about clusters, machines or objects; that is a library's work.

mod args;
mod crds;

use anyhow::Result;
use args::{Args, Verb};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("capstan: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<()> {
    match args.verb {
        Verb::Crds(args) => crds::run(&args),
    }
}

/// `capstan crds | head` is not an error of ours.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
