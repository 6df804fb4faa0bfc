//! The load: clients that create objects as fast as the server responds, and watchers that receive each creation.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::machine::{self, MARK, PATH};
use crate::wire::{Client, PlaneEndpoint};

/// How many create at once.
pub(crate) const CLIENTS: usize = 16;
/// How many watch.
pub(crate) const WATCHERS: usize = 100;
/// How fast watchers are shown machines: what every plane here can keep up with, so that it is delivery that is
/// measured and not a queue.
const PACE: Duration = Duration::from_millis(50);
/// How long the last event may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// What creating has cost.
pub(crate) struct Created {
    pub(crate) per_second: f64,
    pub(crate) latencies: Latencies,
}

/// Times, in order.
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// The time that this share of all kept within.
    pub(crate) fn percentile(&self, share: f64) -> Duration {
        let place = (self.0.len() as f64 * share).ceil() as usize;
        self.0[place.clamp(1, self.0.len()) - 1]
    }
}

/// Creates machines with the numbers in this range, [`CLIENTS`] at a time.
pub(crate) async fn create(endpoint: &PlaneEndpoint, numbers: Range<usize>) -> Result<Created> {
    let bodies: Arc<Vec<Bytes>> = Arc::new(numbers.map(machine::body).collect());
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(endpoint.enter().await?);
    }
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for mut client in clients {
        let (bodies, next) = (Arc::clone(&bodies), Arc::clone(&next));
        tasks.spawn(async move {
            let mut times = Vec::new();
            while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
                let sent = Instant::now();
                client.ask(Method::POST, PATH, body.clone()).await?;
                times.push(sent.elapsed());
            }
            Ok::<_, anyhow::Error>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(done) = tasks.join_next().await {
        times.extend(done??);
    }
    let per_second = bodies.len() as f64 / started.elapsed().as_secs_f64();
    Ok(Created { per_second, latencies: Latencies::of(times) })
}

/// Creates machines with these numbers, one after the other, before [`WATCHERS`] eyes. From a creation being sent until
/// a watcher has its event: the write itself is in it.
pub(crate) async fn watch(endpoint: &PlaneEndpoint, numbers: Range<usize>) -> Result<Latencies> {
    let (seen, mut sightings) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    let revision = revision(&mut endpoint.enter().await?).await?;
    for _ in 0..WATCHERS {
        let mut client = endpoint.enter().await?;
        let path = format!("{PATH}?watch=1&resourceVersion={revision}");
        let mut body = client.send(Method::GET, &path, Bytes::new()).await?.into_body();
        let seen = seen.clone();
        tasks.spawn(async move {
            // Dropped with the task: it holds the connection.
            let _client = client;
            let mut line = Vec::new();
            while let Some(Ok(frame)) = body.frame().await {
                let Ok(bytes) = frame.into_data() else { continue };
                for part in bytes.split_inclusive(|byte| *byte == b'\n') {
                    line.extend_from_slice(part);
                    if part.ends_with(b"\n") {
                        let _ = seen.send((number(&line), Instant::now()));
                        line.clear();
                    }
                }
            }
        });
    }
    drop(seen);
    let mut client = endpoint.enter().await?;
    let mut sent = Vec::new();
    let mut pace = tokio::time::interval(PACE);
    for number in numbers.clone() {
        pace.tick().await;
        let body = machine::body(number);
        sent.push(Instant::now());
        client.ask(Method::POST, PATH, body).await?;
    }
    let mut times = Vec::new();
    while times.len() < numbers.len() * WATCHERS {
        let sighting =
            tokio::time::timeout(DEADLINE, sightings.recv()).await.context("an event is missing")?;
        let (number, at) = sighting.context("the watches have ended")?;
        let number = number.context("an event of something else")?;
        let sent = sent.get(number.wrapping_sub(numbers.start)).context("an event of something older")?;
        times.push(at.duration_since(*sent));
    }
    tasks.shutdown().await;
    Ok(Latencies::of(times))
}

/// The number of the machine that a line is about.
fn number(line: &[u8]) -> Option<usize> {
    let place = line.windows(MARK.len()).position(|part| part == MARK.as_bytes())? + MARK.len();
    std::str::from_utf8(line.get(place..place + 8)?).ok()?.parse().ok()
}

async fn revision(client: &mut Client) -> Result<String> {
    let list = client.ask(Method::GET, &format!("{PATH}?limit=1"), Bytes::new()).await?;
    let list: serde_json::Value = serde_json::from_slice(&list)?;
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    ensure!(!revision.is_empty(), "a list without a revision");
    Ok(revision.to_owned())
}
