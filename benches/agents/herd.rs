//! Agents that speak the protocol of the released program and apply nothing.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use http::Method;
use http_body_util::BodyExt as _;
use serde_json::json;
use tokio::task::JoinSet;

use crate::renewal;
use crate::stage::{Stage, account, core, leases};
use crate::wire::PlaneEndpoint;

/// How many machines are made at the same time.
const AT_ONCE: usize = 16;
/// How long a watch lasts on the average: agents ask for 300 to 600 seconds.
const WATCH: Duration = Duration::from_secs(450);

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    failures: AtomicU64,
    delays: Mutex<Vec<Duration>>,
}

/// Agents at work. Dropping it ends them.
pub(crate) struct Herd {
    counts: Arc<Counts>,
    _agents: JoinSet<()>,
}

impl Herd {
    /// Makes the machines, and returns when all of them are connected.
    pub(crate) async fn start(
        stage: &Stage,
        kubeconfig: &Path,
        agents: usize,
        interval: Duration,
    ) -> Result<Self> {
        let endpoint = PlaneEndpoint::without_certificate(kubeconfig)?;
        let counts = Arc::new(Counts::default());
        let made = stream::iter(0..agents).map(async |number| {
            let name = format!("herd-{number}");
            stage.objects(&name, &format!("life-{name}")).await;
            let secret = json!({"metadata": {"name": format!("{name}-plan")}, "stringData": {"plan": "x".repeat(20_000)}});
            stage.make(&core("secrets"), secret).await;
            let (token, _) = stage.token(&account(&name), 6 * 3600).await;
            anyhow::Ok((number, name, token))
        });
        let made: Vec<(usize, String, String)> = made.buffer_unordered(AT_ONCE).try_collect().await?;
        let mut agents = JoinSet::new();
        for (number, name, token) in made {
            // 254 addresses, so that none has too many connections.
            let source = Ipv4Addr::new(127, 1, 0, u8::try_from(1 + number % 254)?);
            let agent =
                Member { endpoint: endpoint.clone(), counts: Arc::clone(&counts), name, token, source };
            // Spread over the interval, as after an hour.
            let offset = interval.mul_f64(number as f64 / 3000.0 % 1.0);
            let watching = agent.clone();
            let connected = agent.connect().await?;
            agents.spawn(async move { watching.watch(connected).await });
            agents.spawn(async move { agent.renew(offset, interval).await });
        }
        Ok(Self { counts, _agents: agents })
    }

    pub(crate) fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn failures(&self) -> u64 {
        self.counts.failures.load(Ordering::Relaxed)
    }

    /// Times from the moment at which a heartbeat was due until it was answered, in order.
    pub(crate) fn delays(&self) -> Vec<Duration> {
        let mut delays = self.counts.delays.lock().unwrap().clone();
        delays.sort_unstable();
        delays
    }
}

#[derive(Clone)]
struct Member {
    endpoint: PlaneEndpoint,
    counts: Arc<Counts>,
    name: String,
    token: String,
    source: Ipv4Addr,
}

impl Member {
    async fn connect(&self) -> Result<crate::wire::Client> {
        self.endpoint.enter_from(self.source, Some(&self.token)).await
    }

    fn note(&self, result: Result<()>) {
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = result {
            self.counts.failures.fetch_add(1, Ordering::Relaxed);
            println!("{}: {error:#}", self.name);
        }
    }

    async fn watch(&self, mut client: crate::wire::Client) {
        loop {
            let watched = self.watch_once(&mut client).await;
            let is_lost = watched.is_err();
            self.note(watched);
            if is_lost {
                let Ok(again) = self.connect().await else { return };
                client = again;
            }
        }
    }

    async fn watch_once(&self, client: &mut crate::wire::Client) -> Result<()> {
        let path = core(&format!(
            "secrets?fieldSelector=metadata.name%3D{}-plan&watch=true&allowWatchBookmarks=true&timeoutSeconds={}",
            self.name,
            WATCH.as_secs()
        ));
        let response = client.send(Method::GET, &path, Bytes::new()).await?;
        ensure!(response.status().is_success(), "the watch was answered with {}", response.status());
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            frame?;
        }
        Ok(())
    }

    async fn renew(&self, offset: Duration, interval: Duration) {
        let path = leases(&format!("/{}-agent", self.name));
        let Ok(mut client) = self.connect().await else {
            return self.note(Err(anyhow::anyhow!("no connection")));
        };
        let mut due = tokio::time::Instant::now() + offset;
        loop {
            tokio::time::sleep_until(due).await;
            let since = Instant::now();
            let body = Bytes::from(renewal(&self.name).to_string());
            let renewed = client.ask(Method::PATCH, &path, body).await;
            self.counts.delays.lock().unwrap().push(since.elapsed() + since.duration_since(due.into_std()));
            self.note(renewed.map(drop));
            due += interval;
        }
    }
}
