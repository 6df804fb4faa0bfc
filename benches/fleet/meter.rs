//! Reads the counters of one process between two points in time.

use std::time::{Duration, Instant};

use capstan_benches::process::processor;

/// What a process has used since the meter was started.
pub(crate) struct Meter {
    id: u32,
    started: Instant,
    processor: Duration,
}

impl Meter {
    pub(crate) fn start(id: u32) -> Self {
        Self { id, started: Instant::now(), processor: processor(id) }
    }

    /// Seconds by the clock.
    pub(crate) fn wall(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Seconds on a processor.
    pub(crate) fn processor(&self) -> f64 {
        (processor(self.id) - self.processor).as_secs_f64()
    }
}

/// In millions of bytes.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
