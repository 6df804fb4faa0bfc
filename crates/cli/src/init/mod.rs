//! `capstan init` and `capstan delete`: install and remove providers on a management cluster.
//!
//! Installed providers are recorded in clusterctl's inventory, in its format, so that each tool sees what the other
//! did.

mod apply;
mod args;
mod choice;
mod release;
mod remove;

pub(crate) use args::{DeleteArgs, InitArgs};
pub(crate) use remove::delete;

use anyhow::{Context, Result, bail};
use capstan_api::clusterctl::Provider;
use kube::Client;
use kube::api::{Api, ListParams};
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use crate::client::ASKING;
use crate::progress::waiting;
use apply::Applier;
use release::Release;

pub(crate) async fn run(args: &InitArgs) -> Result<()> {
    let namespace = args.target_namespace.as_deref();
    let read = |choice: &_| release::read(choice, args.repository.as_deref(), namespace);
    // What is wrong with what was asked for is known without asking anybody.
    for choice in choice::asked(&args.providers)? {
        read(&choice)?;
    }
    let config = args.plane.config().await?;
    let url = config.cluster_url.clone();
    let client = Client::try_from(config).context("cannot make a client")?;
    if waiting(ASKING, is_embedded(&client)).await? {
        eprintln!(
            "{url} is an embedded plane, with Capstan's kinds and controllers in it: nothing needs to be installed"
        );
        return Ok(());
    }
    let installed = waiting(ASKING, installed(&client)).await?;
    let choices = choice::to_install(&args.providers, &installed)?;
    // Everything is read and judged before anything is written.
    let releases: Vec<Release> = choices.iter().map(read).collect::<Result<_>>()?;
    for release in &releases {
        if let Some(why) = choice::obstacle(&release.choice, &release.version, &release.namespace, &installed)
        {
            bail!("{why}");
        }
    }
    if args.dry_run {
        return print(&releases);
    }
    let applier = Applier::new(client);
    waiting("preparing the inventory of providers", applier.inventory()).await?;
    for release in &releases {
        let label = release.choice.label();
        eprintln!("installing {label} {} into namespace {}", release.version, release.namespace);
        waiting(format!("installing {label}"), applier.release(release))
            .await
            .with_context(|| format!("cannot install {label}"))?;
    }
    if args.wait_providers {
        let timeout = Duration::from_secs(args.wait_provider_timeout);
        for release in &releases {
            let label = release.choice.label();
            waiting(format!("{label} does not run yet"), applier.wait(release, timeout)).await?;
            eprintln!("{label} runs");
        }
    }
    eprintln!(
        "next: let the managers into each namespace with clusters, once:\n  \
         capstan generate access --namespace NAMESPACE | kubectl apply -f -"
    );
    Ok(())
}

fn print(releases: &[Release]) -> Result<()> {
    let mut text = String::new();
    for release in releases {
        // Writing to a String cannot fail.
        _ = writeln!(
            text,
            "{} {} in namespace {}",
            release.choice.label(),
            release.version,
            release.namespace
        );
        for object in &release.objects {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let place =
                object["metadata"]["namespace"].as_str().map(|of| format!("{of}/")).unwrap_or_default();
            _ = writeln!(text, "  {} {place}{name}", object["kind"].as_str().unwrap_or_default());
        }
    }
    std::io::stdout().write_all(text.as_bytes()).map_err(Into::into)
}

/// The embedded plane says what it was compiled with.
async fn is_embedded(client: &Client) -> Result<bool> {
    let version = client.apiserver_version().await.context("cannot reach the management plane")?;
    Ok(version.compiler == "rustc")
}

/// The inventory; empty where there is none yet.
async fn installed(client: &Client) -> Result<Vec<Provider>> {
    match Api::<Provider>::all(client.clone()).list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        listed => Ok(listed.context("cannot list the providers that are installed")?.items),
    }
}
