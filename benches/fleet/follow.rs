//! Tracks the Machines of a plane with one watch, so that waiting causes no lists on the plane.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use capstan_benches::fleet::census::{Census, Wanted};
use futures::StreamExt as _;
use http::header::{HeaderValue, USER_AGENT};
use kube::api::DynamicObject;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The user agent by which audit logs tell this program from what is measured.
pub(crate) const BENCH: &str = "capstan-fleet-bench";
/// How often progress is told at most.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// A client that says that it measures.
pub(crate) async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    let read = Kubeconfig::read_from(kubeconfig)?;
    let mut config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    config.headers.push((USER_AGENT, HeaderValue::from_static(BENCH)));
    kube::Client::try_from(config).context("cannot make a client")
}

/// Knows the Machines of a namespace. Dropping it ends the watch.
pub(crate) struct Follower {
    census: watch::Receiver<Census>,
    task: JoinHandle<()>,
}

impl Follower {
    /// Begins to follow.
    pub(crate) fn start(client: &kube::Client, namespace: &str) -> Self {
        let machines = capstan_tests::namespaced(client, namespace, "cluster.x-k8s.io/v1beta2", "Machine");
        let (known, census) = watch::channel(Census::default());
        let task = tokio::spawn(async move {
            let mut listed = BTreeSet::new();
            let mut events = watcher(machines, watcher::Config::default()).default_backoff().boxed();
            while let Some(event) = events.next().await {
                // The watch goes on by itself after an error.
                let Ok(event) = event else { continue };
                known.send_modify(|census| note(census, &mut listed, event));
            }
        });
        Self { census, task }
    }

    /// What is known now.
    pub(crate) fn census(&self) -> Census {
        self.census.borrow().clone()
    }

    /// Waits until `count` clusters have the Machines that are wanted, and tells the progress.
    pub(crate) async fn clusters(
        &mut self,
        count: usize,
        wanted: Wanted<'_>,
        deadline: Duration,
    ) -> Result<()> {
        self.until(deadline, &format!("of {count} clusters are ready"), count, |census| {
            census.ready_clusters(wanted)
        })
        .await
    }

    /// Waits until `count` Machines are ready, of one cluster or of all.
    pub(crate) async fn machines(
        &mut self,
        cluster: Option<&str>,
        count: usize,
        deadline: Duration,
    ) -> Result<()> {
        let what = format!("of {count} machines are ready");
        self.until(deadline, &what, count, |census| match cluster {
            Some(cluster) => census.ready_machines(cluster),
            None => census.all_ready_machines(),
        })
        .await
    }

    /// Waits until no more than `count` Machines are left.
    pub(crate) async fn gone(&mut self, count: usize, deadline: Duration) -> Result<()> {
        let start = self.census.borrow().machines().saturating_sub(count);
        let what = format!("of {start} machines are deleted");
        self.until(deadline, &what, start, |census| {
            start.saturating_sub(census.machines().saturating_sub(count))
        })
        .await
    }

    async fn until(
        &mut self,
        deadline: Duration,
        what: &str,
        count: usize,
        look: impl Fn(&Census) -> usize,
    ) -> Result<()> {
        let started = Instant::now();
        let (mut printed_at, mut last) = (Instant::now(), None);
        loop {
            let seen = look(&self.census.borrow_and_update());
            let is_done = seen >= count;
            if (is_done || printed_at.elapsed() >= PROGRESS_EVERY) && last != Some(seen) {
                eprintln!("  {seen} {what} ({:.0} s)", started.elapsed().as_secs_f64());
                (printed_at, last) = (Instant::now(), Some(seen));
            }
            if is_done {
                return Ok(());
            }
            let Some(left) = deadline.checked_sub(started.elapsed()) else {
                bail!("after {:.0} s only {seen} {what}", started.elapsed().as_secs_f64());
            };
            // Looks again although nothing changes, to tell the progress and keep the deadline.
            if let Ok(Err(_)) = tokio::time::timeout(left.min(PROGRESS_EVERY), self.census.changed()).await {
                bail!("the watch of Machines has ended");
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn note(census: &mut Census, listed: &mut BTreeSet<String>, event: Event<DynamicObject>) {
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(machine) => {
            listed.insert(machine.metadata.name.clone().unwrap_or_default());
            see(census, &machine);
        }
        Event::InitDone => census.only(listed),
        Event::Apply(machine) => see(census, &machine),
        Event::Delete(machine) => census.gone(machine.metadata.name.as_deref().unwrap_or_default()),
    }
}

fn see(census: &mut Census, machine: &DynamicObject) {
    let meta = &machine.metadata;
    let (name, uid) = (meta.name.as_deref().unwrap_or_default(), meta.uid.as_deref().unwrap_or_default());
    census.seen(name, uid, meta.labels.as_ref().unwrap_or(&Default::default()), &machine.data);
}
