//! The clock as a trait, so that a simulation can replace it.
//!
//! There are two clocks. The wall clock gives the time of an event, and may be set at any moment. The monotonic clock
//! measures durations. Periodic work uses the monotonic clock.

use jiff::Timestamp;
use std::future::Future;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Returns the current time, and sleeps.
pub trait Clock: Send + Sync {
    /// The current time of the wall clock.
    fn now(&self) -> Timestamp;

    /// The time since a fixed moment of this process. Changes of the wall clock do not affect it.
    fn elapsed(&self) -> Duration;

    /// Waits until this wall clock time. May return earlier, so the caller checks the clock again.
    fn sleep_until(&self, time: Timestamp) -> impl Future<Output = ()> + Send;

    /// Waits until [`elapsed`](Self::elapsed) is this. May return earlier.
    fn sleep_until_elapsed(&self, moment: Duration) -> impl Future<Output = ()> + Send;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Longest sleep until the clock is checked again, because the wall clock may have been set.
const LONGEST: Duration = Duration::from_secs(60);

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        BEGIN.get_or_init(Instant::now).elapsed()
    }

    async fn sleep_until(&self, time: Timestamp) {
        let left = Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default();
        tokio::time::sleep(left.min(LONGEST)).await;
    }

    async fn sleep_until_elapsed(&self, moment: Duration) {
        tokio::time::sleep(moment.saturating_sub(self.elapsed())).await;
    }
}
