//! The command line of Capstan.
//!
//! What lives here: arguments, what is printed, exit codes, and the wiring of the other crates into one
//! program. What must not: any decision about clusters, machines or objects; that is a library's work.

mod args;
mod artifacts;
mod client;
mod controllers;
mod crds;
mod demo;
mod describe;
mod etcd;
mod extensions;
mod generate;
mod host;
mod install;
mod kubeconfig;
mod log;
mod machines;
mod manager;
mod output;
mod plan;
mod release;
mod software;
mod stop;
mod up;
mod why;

use anyhow::Result;
use args::{Args, Describe, Generate, Get, Verb};
use clap::Parser;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    // An error says that there is one already, which is as good.
    _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    match run(Args::parse()).await {
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
        Verb::Manager(args) => manager::run(&args).await,
        Verb::Artifacts(verb) => artifacts::run(&verb),
        Verb::Host(verb) => host::run(verb).await,
        Verb::Crds(args) => crds::run(&args),
        Verb::Release(args) => release::run(&args),
        Verb::Generate(Generate::Cluster(args)) => generate::cluster(&args),
        Verb::Get(Get::Kubeconfig(args)) => {
            kubeconfig::run(args.connect().await?, &args.namespace, &args.name).await
        }
        Verb::Describe(Describe::Cluster(args)) => {
            describe::run(args.connect().await?, &args.namespace, &args.name).await
        }
        Verb::Plan(args) => plan::run(client::connect(args.kubeconfig.as_deref()).await?, &args).await,
        Verb::Why(args) => why::run(client::connect(args.kubeconfig.as_deref()).await?, &args).await,
    }
}

/// `capstan crds | head` is not an error of ours.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
