//! The embedded plane beside kube-apiserver and etcd: writes, watches, memory, start. One after the other on the same
//! machine and disk, both written through, both over TLS with client certificates, under the same load.
//!
//! `CAPSTAN_BINARY` is `capstan` as it is shipped; `make bench` builds it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "who measures may panic, and prints")]

mod load;
mod machine;
mod planes;
mod process;
mod wire;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use load::Created;
use machine::{PATH, name};
use planes::Plane;
use process::{memory, processor, written};

/// How many there are before anything is measured.
const FEW: usize = 1_000;
/// How many there are when memory and start are.
const SOME: usize = 10_000;
/// How many there are in the end.
const MANY: usize = 100_000;
/// Over how many creations a cost is taken.
const SAMPLE: usize = 4_000;
/// Starts of each plane.
const STARTS: usize = 3;

/// What a write costs when there are so many objects already.
struct Cost {
    objects: usize,
    created: Created,
    processor: Duration,
    written: u64,
}

/// What was measured of one plane.
struct Figures {
    costs: Vec<Cost>,
    watched: load::Latencies,
    /// After the load, and after a new start: of each process.
    memory: [Vec<(&'static str, u64)>; 2],
    start: Duration,
}

// One thread, because the other core is for the plane.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    run().await.unwrap();
}

async fn run() -> Result<()> {
    capstan_testkit::install_crypto_provider();
    let only = std::env::var("ONLY").unwrap_or_default();
    let most = std::env::var("MOST").ok().map_or(MANY, |most| most.parse().expect("MOST is a number"));
    println!("one fsync of 4 KB takes {:.1?} here (median)", fsync()?);
    let ours = measure(Plane::embedded().await?, most).await?;
    if only == "embedded" {
        return Ok(());
    }
    let theirs = measure(Plane::real().await?, SOME).await?;
    compare(&ours, &theirs);
    Ok(())
}

async fn measure(mut plane: Plane, most: usize) -> Result<Figures> {
    let say = |plane: &Plane, what: &str| println!("{:<10}{what}", plane.name());
    let door = plane.door()?;
    load::create(&door, 0..FEW).await?;
    let mut costs = vec![cost(&plane, FEW).await?];
    let mut there = FEW + SAMPLE;
    load::create(&door, there..SOME).await?;
    plane.settle().await?;
    let loaded = resident(&plane);
    say(&plane, &format!("loaded: {loaded:?}"));
    let watched = load::watch(&door, SOME).await?;
    there = SOME + 1_000;
    say(&plane, &format!("watch p50 {:.1?} p99 {:.1?}", watched.percentile(0.5), watched.percentile(0.99)));
    let last = format!("{PATH}/{}", name(SOME - 1));
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        starts.push(plane.restart(&last).await?);
    }
    starts.sort_unstable();
    plane.settle().await?;
    let started = resident(&plane);
    say(&plane, &format!("started in {starts:.1?}: {started:?}"));
    let door = plane.door()?;
    costs.push(cost(&plane, there).await?);
    there += SAMPLE;
    if most > there {
        load::create(&door, there..most).await?;
        costs.push(cost(&plane, most).await?);
    }
    Ok(Figures { costs, watched, memory: [loaded, started], start: starts[STARTS / 2] })
}

async fn cost(plane: &Plane, objects: usize) -> Result<Cost> {
    let (used, sent) = (plane.total(processor), plane.total(written));
    let created = load::create(&plane.door()?, objects..objects + SAMPLE).await?;
    let cost = Cost {
        objects,
        processor: (plane.total(processor) - used) / SAMPLE as u32,
        written: (plane.total(written) - sent) / SAMPLE as u64,
        created,
    };
    println!(
        "{:<10}at {objects} objects: {:.0} writes/s, p50 {:.1?}, p99 {:.1?}; each {:.0?} of processor, {} bytes to disk",
        plane.name(),
        cost.created.per_second,
        cost.created.latencies.percentile(0.5),
        cost.created.latencies.percentile(0.99),
        cost.processor,
        cost.written,
    );
    Ok(cost)
}

fn resident(plane: &Plane) -> Vec<(&'static str, u64)> {
    plane.processes().into_iter().map(|(name, id)| (name, memory(id))).collect()
}

/// Prints each figure of both, the ratio, and what the ratio should be at least.
fn compare(ours: &Figures, theirs: &Figures) {
    println!("{:<44}{:>14}{:>14}{:>8}{:>8}", "", "embedded", "real", "ratio", "limit");
    let line = |what: &str, a: String, b: String, ratio: f64, limit: f64| {
        let missed = if ratio < limit { "  MISSED" } else { "" };
        println!("{what:<44}{a:>14}{b:>14}{ratio:>8.1}{limit:>8.0}{missed}");
    };
    let time = |what: &str, a: Duration, b: Duration, limit: f64| {
        line(what, format!("{a:.1?}"), format!("{b:.1?}"), b.as_secs_f64() / a.as_secs_f64(), limit);
    };
    for (a, b) in ours.costs.iter().zip(&theirs.costs) {
        let (fast, slow) = (a.created.per_second, b.created.per_second);
        let what = |what: &str| format!("{what} at {} objects", a.objects);
        line(&what("writes per second"), format!("{fast:.0}"), format!("{slow:.0}"), fast / slow, 3.0);
        let p99 = |cost: &Cost| cost.created.latencies.percentile(0.99);
        time(&what("p99 of create"), p99(a), p99(b), 3.0);
    }
    let p99 = |figures: &Figures| figures.watched.percentile(0.99);
    time("p99 of watch delivery, 100 watchers", p99(ours), p99(theirs), 3.0);
    for (what, index) in [("loaded", 0), ("started", 1)] {
        let sum =
            |figures: &Figures| figures.memory[index].iter().map(|(_, bytes)| *bytes).sum::<u64>() as f64;
        let (a, b) = (sum(ours), sum(theirs));
        let megabytes = |bytes: f64| format!("{:.1} MB", bytes / 1e6);
        line(&format!("memory with {SOME} objects, {what}"), megabytes(a), megabytes(b), b / a, 5.0);
    }
    time("start to ready", ours.start, theirs.start, 20.0);
    let (first, last) = (&ours.costs[0], ours.costs.last().unwrap_or(&ours.costs[0]));
    println!(
        "cost of a write from {} to {} objects: processor x{:.2}, bytes to disk x{:.2}, time x{:.2} (limit: flat)",
        first.objects,
        last.objects,
        last.processor.as_secs_f64() / first.processor.as_secs_f64(),
        last.written as f64 / first.written as f64,
        first.created.per_second / last.created.per_second,
    );
}

/// How long the disk takes to take 4 KB for good: the floor under every write that is alone.
fn fsync() -> Result<Duration> {
    use std::io::Write as _;
    let mut file = tempfile::tempfile().context("no temporary file")?;
    let mut times = Vec::new();
    for _ in 0..200 {
        let started = std::time::Instant::now();
        file.write_all(&[1; machine::SIZE])?;
        file.sync_data()?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    ensure!(!times.is_empty());
    Ok(times[times.len() / 2])
}
