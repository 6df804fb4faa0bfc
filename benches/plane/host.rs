//! The speed of the computer itself, without a plane: the lower bound of every figure.

use std::hint::black_box;
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::load::Latencies;
use crate::machine;

/// About what a plane computes for one creation.
const WORK: Duration = Duration::from_millis(2);
const TIMES: usize = 400;
/// As a plane that is asked now and then.
const PAUSE: Duration = Duration::from_millis(20);

/// How long the disk takes to take 4 KB for good: the floor under every write that is alone.
pub(crate) fn fsync() -> Result<Duration> {
    let mut file = tempfile::tempfile().context("no temporary file")?;
    let mut times = Vec::new();
    for _ in 0..200 {
        let started = Instant::now();
        file.write_all(&[1; machine::SIZE])?;
        file.sync_data()?;
        times.push(started.elapsed());
    }
    Ok(Latencies::of(times).percentile(0.5))
}

/// How long the same work takes, time after time: where others use the processor as well, the slowest one in a hundred says
/// more about them than about who works.
pub(crate) fn work() -> Latencies {
    let mut rounds = 1 << 10;
    while timed(rounds) < WORK {
        rounds *= 2;
    }
    let again = |_| {
        std::thread::sleep(PAUSE);
        timed(rounds)
    };
    Latencies::of((0..TIMES).map(again).collect())
}

fn timed(rounds: u64) -> Duration {
    let started = Instant::now();
    black_box((0..rounds).fold(1_u64, |sum, round| black_box(sum.wrapping_mul(31) ^ round)));
    started.elapsed()
}
