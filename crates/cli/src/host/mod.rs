//! `capstan host`: the inventory.

mod abandon;
#[cfg(feature = "ssh")]
mod add;
mod args;
#[cfg(feature = "ssh")]
mod check;
mod list;
mod registrations;
mod remove;
mod token;

pub(crate) use args::HostVerb;

use anyhow::{Context, Result};
use capstan_api::infrastructure::Host;
use kube::api::Api;

use crate::client::{ASKING, Place};
use crate::progress::waiting;

/// Label of a Secret with the name of the Host whose credential it contains. Only Secrets that `capstan host add` created
/// have it; it may replace them, and `capstan host remove` may remove them.
const OF_HOST: &str = "capstan.dev/host";

/// An error whose message has already been printed, with its exit code.
#[derive(Debug, thiserror::Error)]
#[error("exit code {0}")]
pub(crate) struct Exit(pub(crate) u8);

/// A host cannot be used.
#[cfg(feature = "ssh")]
const UNUSABLE: u8 = 3;
/// A host must stay.
const REFUSED: u8 = 4;

pub(crate) async fn run(verb: HostVerb) -> Result<()> {
    match verb {
        #[cfg(feature = "ssh")]
        HostVerb::Add(args) => waiting(ASKING, add::run(&args)).await,
        HostVerb::List(args) => list::run(&args).await,
        #[cfg(feature = "ssh")]
        HostVerb::Check(args) => check::run(&args).await,
        #[cfg(not(feature = "ssh"))]
        HostVerb::Add(_) | HostVerb::Check(_) => anyhow::bail!(
            "this capstan was compiled without SSH, as `make demo` does: use one from `cargo build --bin capstan`"
        ),
        HostVerb::Token(args) => waiting(ASKING, token::run(&args)).await,
        HostVerb::Registrations(args) => registrations::list(&args).await,
        HostVerb::Approve(args) => waiting(ASKING, registrations::approve(&args)).await,
        HostVerb::Deny(args) => waiting(ASKING, registrations::deny(&args)).await,
        HostVerb::Remove(args) => waiting(ASKING, remove::run(&args)).await,
        HostVerb::Abandon(args) => waiting(ASKING, abandon::run(&args)).await,
    }
}

impl Place {
    fn hosts(&self) -> Api<Host> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

async fn read(place: &Place, name: &str) -> Result<Host> {
    let namespace = &place.namespace;
    place
        .hosts()
        .get_opt(name)
        .await
        .with_context(|| format!("cannot read Host {namespace}/{name}"))?
        .with_context(|| {
            format!(
                "there is no Host {name} in namespace {namespace} (see `capstan host list -n {namespace}`)"
            )
        })
}

/// Ends with what stands in the way, if anything does.
fn refuse(obstacle: Option<String>) -> Result<()> {
    let Some(why) = obstacle else { return Ok(()) };
    eprintln!("capstan: {why}");
    Err(Exit(REFUSED).into())
}
