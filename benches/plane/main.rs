//! The embedded plane compared with kube-apiserver and etcd: writes, watches, memory, start. They run one after the
//! other on the same computer and disk, both with fsync, both over TLS with client certificates, under the same load.
//!
//! `CAPSTAN_BINARY` is the path of the released `capstan`; `make bench` builds it. With `SMALL` the benchmark only
//! shows that it works. With `ALONE` only the embedded plane is measured.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "who measures may panic, and prints")]

mod host;
mod load;
mod machine;
mod planes;
mod wire;

use std::time::Duration;

use anyhow::Result;
use capstan_benches::process::{memory, processor, written};
use load::Created;
use machine::{PATH, name};
use planes::BenchPlane;

/// How much is measured.
struct Sizes {
    /// Objects before anything is measured.
    few: usize,
    /// Objects when memory and start are.
    some: usize,
    /// Objects in the end, of ours alone: of the other there is no claim about so many.
    many: usize,
    /// Creations that a cost is taken over.
    sample: usize,
    /// Creations that watchers are shown: so many that the slowest one in a hundred are more than a few.
    shown: usize,
    /// Starts of each plane.
    starts: usize,
}

const FULL: Sizes = Sizes { few: 1_000, some: 10_000, many: 100_000, sample: 4_000, shown: 2_000, starts: 3 };
/// To see that everything works: the figures say nothing about the limits.
const SMALL: Sizes = Sizes { few: 50, some: 500, many: 2_000, sample: 200, shown: 20, starts: 1 };

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
    let is_set = |name| std::env::var_os(name).is_some();
    let sizes = if is_set("SMALL") { SMALL } else { FULL };
    println!("one fsync of 4 KB takes {:.1?} here (median)", host::fsync()?);
    let work = host::work();
    let [p50, p99] = [0.5, 0.99].map(|share| work.percentile(share));
    println!("the same work takes {p50:.1?} (median) and {p99:.1?} (p99) here, with nothing else to do");
    let ours = measure(BenchPlane::embedded().await?, &sizes, sizes.many).await?;
    if is_set("ALONE") {
        return Ok(());
    }
    let theirs = measure(BenchPlane::real().await?, &sizes, sizes.some).await?;
    compare(&ours, &theirs, sizes.some);
    Ok(())
}

async fn measure(mut plane: BenchPlane, sizes: &Sizes, most: usize) -> Result<Figures> {
    let &Sizes { few, some, sample, shown, starts, .. } = sizes;
    let say = |plane: &BenchPlane, what: &str| println!("{:<10}{what}", plane.name());
    let endpoint = plane.endpoint()?;
    load::create(&endpoint, 0..few).await?;
    let mut costs = vec![cost(&plane, few, sample).await?];
    load::create(&endpoint, few + sample..some).await?;
    plane.wait_until_idle().await?;
    let loaded = resident(&plane);
    say(&plane, &format!("with {some} objects: {}", memory_of(&loaded)));
    let watched = load::watch(&endpoint, some..some + shown).await?;
    let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|share| watched.percentile(share));
    say(&plane, &format!("watch p50 {p50:.1?}, p90 {p90:.1?}, p99 {p99:.1?}"));
    let last = format!("{PATH}/{}", name(some - 1));
    let mut times = Vec::new();
    for _ in 0..starts {
        times.push(plane.restart(&last).await?);
    }
    times.sort_unstable();
    plane.wait_until_idle().await?;
    let started = resident(&plane);
    say(&plane, &format!("started in {times:.1?}: {}", memory_of(&started)));
    let there = some + shown;
    costs.push(cost(&plane, there, sample).await?);
    if most > there + sample {
        load::create(&plane.endpoint()?, there + sample..most).await?;
        costs.push(cost(&plane, most, sample).await?);
    }
    Ok(Figures { costs, watched, memory: [loaded, started], start: times[starts / 2] })
}

async fn cost(plane: &BenchPlane, objects: usize, sample: usize) -> Result<Cost> {
    let (used, sent) = (plane.total(processor), plane.total(written));
    let created = load::create(&plane.endpoint()?, objects..objects + sample).await?;
    let cost = Cost {
        objects,
        processor: (plane.total(processor) - used) / sample as u32,
        written: (plane.total(written) - sent) / sample as u64,
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

fn resident(plane: &BenchPlane) -> Vec<(&'static str, u64)> {
    plane.processes().into_iter().map(|(name, id)| (name, memory(id))).collect()
}

fn memory_of(processes: &[(&str, u64)]) -> String {
    let each = processes.iter().map(|(name, bytes)| format!("{name} {}", megabytes(*bytes)));
    each.collect::<Vec<_>>().join(", ")
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Prints each figure of both, the ratio, and what the ratio should be at least.
fn compare(ours: &Figures, theirs: &Figures, some: usize) {
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
        let sum = |figures: &Figures| figures.memory[index].iter().map(|(_, bytes)| *bytes).sum::<u64>();
        let (a, b) = (sum(ours), sum(theirs));
        let what = format!("memory with {some} objects, {what}");
        line(&what, megabytes(a), megabytes(b), b as f64 / a as f64, 5.0);
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
