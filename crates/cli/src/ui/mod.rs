//! `capstan ui`: a web view of the management plane, served on loopback.
//!
//! The pages and the access control are in the crate `capstan-ui`; this module fills the pages. Objects come from
//! caches that watches update, so that a page causes few requests. Content that only one page needs (events, the plan
//! of a machine) is read when the page is shown. All requests use the credentials of the user who started it. `capstan
//! top` shows the same pages in a terminal.

mod act;
mod args;
mod cluster;
mod fleet;
mod hosts;
mod machine;
mod machines;
mod objects;
mod preview;
mod rollouts;
mod text;

pub(crate) use args::{LISTEN, UiArgs};
pub(crate) use machines::{MachineRow, Machines};

use anyhow::{Context as _, Result};
use capstan_api::core::Cluster;
use capstan_controller::Scope;
use capstan_ui::model::{ClusterPage, Fleet, HostPage, Hosts, MachinePage, Preview};
use capstan_ui::{Action, Filter, Options, Problem, Server, Source, Target};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use std::collections::BTreeSet;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::watch;

use crate::client::{ASKING, Place};
use crate::progress::waiting;
use crate::{log, stop};
use objects::Objects;

pub(crate) async fn run(args: &UiArgs) -> Result<()> {
    _ = log::to_stderr(None, None);
    let stop = stop::on_signal()?;
    let place = args.plane.connect().await?;
    let server = serve(place, args.listen, args.allow_actions).await?;
    eprintln!(
        "web view: {}   (the link works once, within 15 minutes; stop with Ctrl-C)",
        server.login_link()
    );
    server.serve(stop).await.context("the web view ended")
}

/// Binds the web view of a plane; it responds once it is served.
pub(crate) async fn serve(place: Place, listen: SocketAddr, allow_actions: bool) -> Result<Server> {
    let source = waiting(ASKING, PlaneSource::start(place, Scope::default(), allow_actions)).await?;
    Server::bind(listen, Arc::new(source), Options { allow_actions })
        .await
        .with_context(|| format!("cannot serve the web view on {listen}; pass --listen with another address"))
}

/// Fills pages from a management plane.
pub(crate) struct PlaneSource {
    client: Client,
    namespace: String,
    objects: Objects,
    allow_actions: bool,
}

impl PlaneSource {
    /// Watches the objects of a plane in the scope.
    pub(crate) async fn start(
        Place { client, namespace }: Place,
        scope: Scope,
        allow_actions: bool,
    ) -> Result<Self> {
        Ok(Self { objects: Objects::watch(&client, scope).await?, client, namespace, allow_actions })
    }

    /// All clusters. What a cluster waits for is determined only for those in `seen`, by namespace and name, because it
    /// needs all objects of the cluster.
    pub(crate) fn all_clusters<'a>(&'a self, seen: &'a Seen) -> Answer<'a, Fleet> {
        answer(async move {
            let is_seen = |cluster: &Cluster| seen.has(cluster);
            fleet::page(&self.objects, &Filter::default(), usize::MAX, is_seen, Timestamp::now()).await
        })
    }

    /// All machines, or those of one cluster, by namespace and name.
    pub(crate) fn all_machines<'a>(
        &'a self,
        cluster: Option<(&'a str, &'a str)>,
        seen: &'a Seen,
    ) -> Answer<'a, Machines> {
        answer(async move { machines::list(&self.objects, cluster, seen, Timestamp::now()).await })
    }

    /// All hosts.
    pub(crate) fn all_hosts(&self) -> Answer<'_, Hosts> {
        answer(async move { hosts::list(&self.objects, &Filter::default(), usize::MAX).await })
    }
}

/// Namespaces and names of the objects that are on the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen(BTreeSet<(String, String)>);

impl Seen {
    fn has(&self, object: &impl kube::ResourceExt) -> bool {
        self.0.contains(&(object.namespace().unwrap_or_default(), object.name_any()))
    }
}

impl FromIterator<(String, String)> for Seen {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(names: I) -> Self {
        Self(names.into_iter().collect())
    }
}

type Answer<'a, T> = BoxFuture<'a, Result<T, Problem>>;

/// Errors as the person at the browser gets them.
fn answer<'a, T>(work: impl Future<Output = Result<T>> + Send + 'a) -> Answer<'a, T> {
    async { work.await.map_err(|error| problem(&error)) }.boxed()
}

fn problem(error: &anyhow::Error) -> Problem {
    if let Some(problem) = error.downcast_ref::<Problem>() {
        return problem.clone();
    }
    let text = error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let status = error.chain().find_map(|cause| match cause.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    });
    match status {
        Some(401 | 403) => Problem::Forbidden(text),
        Some(404) => Problem::NotFound(text),
        Some(400 | 409 | 422) => Problem::Invalid(text),
        _ => Problem::Unavailable(text),
    }
}

impl Source for PlaneSource {
    fn fleet(&self, filter: Filter) -> Answer<'_, Fleet> {
        answer(
            async move { fleet::page(&self.objects, &filter, fleet::ROWS, |_| true, Timestamp::now()).await },
        )
    }

    fn cluster<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, ClusterPage> {
        answer(async move {
            let mut page = Box::pin(cluster::page(&self.client, &self.objects, namespace, name)).await?;
            page.offers.retain(|_| self.allow_actions);
            Ok(page)
        })
    }

    fn machine<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, MachinePage> {
        answer(async move {
            let mut page = Box::pin(machine::page(&self.client, namespace, name)).await?;
            page.offers.retain(|_| self.allow_actions);
            Ok(page)
        })
    }

    fn hosts(&self, filter: Filter) -> Answer<'_, Hosts> {
        answer(async move { hosts::list(&self.objects, &filter, hosts::ROWS).await })
    }

    fn host<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, HostPage> {
        answer(async move {
            let mut page = hosts::page(&self.client, namespace, name).await?;
            page.offers.retain(|_| self.allow_actions);
            Ok(page)
        })
    }

    fn preview(&self, manifests: String) -> Answer<'_, Preview> {
        answer(async move { Box::pin(preview::page(&self.client, &self.namespace, &manifests)).await })
    }

    fn act(&self, action: Action, target: Target) -> Answer<'_, String> {
        answer(async move { act::act(&self.client, action, &target).await })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.objects.changes()
    }
}
