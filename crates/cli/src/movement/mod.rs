//! `capstan move`: moves clusters to another management plane, or to a folder and back.

mod args;

pub(crate) use args::MoveArgs;

use anyhow::{Context, Result, bail};
use capstan_mover::{MoveEndpoint, MoveProgress, Transfer, Waits, from_folder, to_folder};
use std::io::Write as _;

use crate::client::{Place, PlaneArgs};
use crate::progress::{self, waiting};

pub(crate) async fn run(args: &MoveArgs) -> Result<()> {
    let report = |progress_made: MoveProgress| progress::say(&progress_made.to_string());
    if let Some(folder) = &args.from_directory {
        let target = args.target().connect().await?.client;
        let target = MoveEndpoint::target(target);
        waiting("writing to the target", from_folder(&target, folder, &report)).await?;
        return Ok(());
    }
    let Place { client, namespace } = args.place.connect().await?;
    let source = MoveEndpoint::source(client);
    if let Some(folder) = &args.to_directory {
        waiting("reading the source", to_folder(&source, &namespace, folder, &report)).await?;
        return Ok(());
    }
    if args.to_kubeconfig.is_none() {
        bail!("--dry-run also needs --to-kubeconfig, because what would be refused depends on the target");
    }
    let target = args.target().connect().await.context("cannot reach the target")?;
    let target = MoveEndpoint::target(target.client);
    let transfer =
        Transfer { source, target, namespace: namespace.clone(), waits: Waits::default(), report: &report };
    if args.dry_run {
        let would_move = waiting("comparing both planes", transfer.rehearse()).await?;
        let mut text: String = would_move.iter().map(|title| format!("{title}\n")).collect();
        if text.is_empty() {
            text = format!("nothing in namespace {namespace} would be moved\n");
        }
        return std::io::stdout().write_all(text.as_bytes()).map_err(Into::into);
    }
    tokio::select! {
        moved = waiting(format!("moving namespace {namespace}"), transfer.run()) => moved?,
        () = crate::stop::on_signal()? => {
            bail!("interrupted: what is on its way stays paused on both sides; run the same command again to finish");
        }
    }
    Ok(())
}

impl MoveArgs {
    fn target(&self) -> PlaneArgs {
        PlaneArgs {
            kubeconfig: self.to_kubeconfig.clone(),
            kubeconfig_context: self.to_kubeconfig_context.clone(),
        }
    }
}
