//! The command line of Capstan.
//!
//! This crate contains arguments, output, exit codes, and the wiring of the other crates into one program. It must not
//! contain decisions about clusters, machines or objects; those belong to libraries.

mod admin;
mod admission;
mod args;
mod artifacts;
mod backup;
mod client;
mod complete;
mod completion;
mod controller_health;
mod controllers;
mod crds;
mod demo;
mod describe;
mod embedded;
mod etcd;
mod extensions;
mod generate;
mod get;
mod host;
mod init;
mod install;
mod invocation;
mod log;
mod logs;
mod machines;
mod manager;
mod movement;
mod open_files;
mod output;
mod pages;
mod plan;
mod progress;
mod release;
mod rollout;
mod rotate;
mod show;
mod software;
mod stop;
mod support;
mod table;
mod terminal;
mod top;
#[cfg(feature = "traces")]
mod traces;
mod tuning;
mod ui;
mod up;
mod version;
mod why;

use anyhow::Result;
use args::{Args, Verb};
use describe::Describe;
use invocation::Invocation;
use rollout::Alpha;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    // An error says that there is one already, which is as good.
    _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let done = match invocation::read() {
        Invocation::Run(args) => Box::pin(run(*args)).await,
        Invocation::CompleteForKubectl(words) => complete::run_for_kubectl(&words).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref() {
            Some(host::Exit(code)) => ExitCode::from(*code),
            None => {
                eprintln!("capstan: {error:#}");
                ExitCode::FAILURE
            }
        },
    }
}

async fn run(args: Args) -> Result<()> {
    match args.verb {
        Verb::Demo(args) => demo::run(&args).await,
        Verb::Up(args) => up::run(&args).await,
        Verb::Backup(args) => backup::run(&args).await,
        Verb::Restore(args) => backup::restore(args).await,
        Verb::Manager(args) => manager::run(&args).await,
        Verb::Artifacts(verb) => artifacts::run(verb).await,
        Verb::Host(verb) => host::run(verb).await,
        Verb::Crds(args) => crds::run(&args),
        Verb::Release(args) => release::run(&args),
        Verb::Generate(verb) => generate::run(&verb).await,
        Verb::Init(args) => init::run(&args).await,
        Verb::Delete(args) => init::delete(&args).await,
        Verb::Get(verb) => get::run(verb).await,
        Verb::Describe(Describe::Cluster(args)) => describe::run(&args).await,
        Verb::Move(args) => movement::run(&args).await,
        Verb::Plan(args) => plan::run(&args).await,
        Verb::Why(args) => why::run(&args).await,
        Verb::Top(args) => top::run(&args).await,
        Verb::Ui(args) => ui::run(&args).await,
        Verb::Logs(args) => logs::run(&args).await,
        Verb::Rollout(verb) | Verb::Alpha(Alpha::Rollout(verb)) => rollout::run(&verb).await,
        Verb::Rotate(verb) => rotate::run(&verb).await,
        Verb::Support(verb) => support::run(&verb).await,
        Verb::Admin(verb) => admin::run(&verb).await,
        Verb::Complete(args) => complete::run(&args).await,
        Verb::Completion(args) => completion::run(&args),
        Verb::Version(args) => version::run(&args),
    }
}

/// `capstan crds | head` is not an error of ours.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
