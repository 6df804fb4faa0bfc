//! Memory, processor time and writes of an idle process.

use std::path::Path;
use std::time::Duration;

use capstan_benches::process::{memory, processor, written};
use serde_json::Value;

use crate::stage::{MACHINE, Stage, core, leases, reports};

/// How long it is watched: the kernel counts processor time in hundredths of a second.
pub(crate) const INTERVAL: Duration = Duration::from_secs(180);
/// How long it gets to come to rest.
const SETTLING: Duration = Duration::from_secs(15);

/// A process.
pub(crate) struct Watched<'a> {
    pub(crate) id: u32,
    pub(crate) binary: &'a Path,
}

/// What was seen of it.
#[derive(Debug)]
pub(crate) struct Rest {
    /// Resident, in bytes.
    pub(crate) memory: u64,
    /// Size of its file.
    pub(crate) binary: u64,
    /// Processor time.
    pub(crate) processor: Duration,
    /// On the plane, whoever made them: there is nobody else.
    pub(crate) writes: u64,
    /// Bytes that it sent to a disk.
    pub(crate) disk: u64,
    pub(crate) leases: u64,
    pub(crate) reports: u64,
}

/// Watches it.
pub(crate) async fn at_rest(stage: &Stage, watched: &Watched<'_>) -> Rest {
    tokio::time::sleep(SETTLING).await;
    let (lease, report) = (leases(&format!("/{MACHINE}-agent")), reports(&format!("/{MACHINE}")));
    let (disk, used) = (written(watched.id), processor(watched.id));
    let (mut seen, mut counts) = ([version(stage, &lease).await, version(stage, &report).await], [0, 0]);
    let before = revision(stage).await;
    let until = tokio::time::Instant::now() + INTERVAL;
    while tokio::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(500)).await;
        for (index, path) in [&lease, &report].into_iter().enumerate() {
            let now = version(stage, path).await;
            if now != seen[index] {
                counts[index] += 1;
                seen[index] = now;
            }
        }
    }
    Rest {
        memory: memory(watched.id),
        processor: processor(watched.id) - used,
        binary: std::fs::metadata(watched.binary).unwrap().len(),
        writes: revision(stage).await - before,
        disk: written(watched.id) - disk,
        leases: counts[0],
        reports: counts[1],
    }
}

/// How many writes the plane saw meanwhile.
pub(crate) async fn writes(stage: &Stage, interval: Duration) -> u64 {
    let before = revision(stage).await;
    tokio::time::sleep(interval).await;
    revision(stage).await - before
}

/// Every write raises it by one.
async fn revision(stage: &Stage) -> u64 {
    let list = stage.ask("GET", &core("secrets?limit=1"), Value::Null).await;
    list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

async fn version(stage: &Stage, path: &str) -> String {
    let object = stage.ask("GET", path, Value::Null).await;
    object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}
