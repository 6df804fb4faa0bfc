//! `capstan move`: clusters go to another management plane, or to a folder and back.

mod args;

pub(crate) use args::MoveArgs;

use anyhow::{Context, Result, bail};
use capstan_mover::{Plane, Told, Transfer, Waits, from_folder, to_folder};
use kube::Client;
use std::io::Write as _;
use std::path::Path;

use crate::client;

pub(crate) async fn run(args: &MoveArgs) -> Result<()> {
    let tell = |told: Told| eprintln!("{told}");
    if let Some(folder) = &args.from_directory {
        let target = connect(args.to_kubeconfig.as_deref(), args.to_kubeconfig_context.as_deref()).await?;
        from_folder(&Plane::target(target.0), folder, &tell).await?;
        return Ok(());
    }
    let (client, its_namespace) =
        connect(args.kubeconfig.as_deref(), args.kubeconfig_context.as_deref()).await?;
    let namespace = args.namespace.clone().unwrap_or(its_namespace);
    let source = Plane::source(client);
    if let Some(folder) = &args.to_directory {
        to_folder(&source, &namespace, folder, &tell).await?;
        return Ok(());
    }
    let Some(kubeconfig) = &args.to_kubeconfig else {
        bail!("--dry-run also needs --to-kubeconfig, because what would be refused depends on the target");
    };
    let (target, _) = connect(Some(kubeconfig), args.to_kubeconfig_context.as_deref())
        .await
        .context("cannot reach the target")?;
    let target = Plane::target(target);
    let transfer =
        Transfer { source, target, namespace: namespace.clone(), waits: Waits::default(), tell: &tell };
    if args.dry_run {
        let would_move = transfer.rehearse().await?;
        let mut text: String = would_move.iter().map(|title| format!("{title}\n")).collect();
        if text.is_empty() {
            text = format!("nothing in namespace {namespace} would be moved\n");
        }
        return std::io::stdout().write_all(text.as_bytes()).map_err(Into::into);
    }
    tokio::select! {
        moved = transfer.run() => moved?,
        () = crate::stop::on_signal()? => {
            bail!("interrupted: what is on its way stays paused on both sides; run the same command again to finish");
        }
    }
    Ok(())
}

/// A client, and the namespace of its context.
async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<(Client, String)> {
    let config = client::config_in(kubeconfig, context).await?;
    let namespace = config.default_namespace.clone();
    Ok((Client::try_from(config).context("cannot make a client")?, namespace))
}
