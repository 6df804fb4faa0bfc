//! The time, as something that is given: a simulation has a clock of its own.
//!
//! Two clocks: the wall clock says when something was, and may be set at any moment; the other one says how long ago, and only
//! goes forward. What must happen again and again goes by the second one.

use jiff::Timestamp;
use std::future::Future;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Returns the current time, and sleeps.
pub trait Clock: Send + Sync {
    /// What time it is.
    fn now(&self) -> Timestamp;

    /// How long ago a certain moment was; always the same one in this process. No change of the wall clock affects it.
    fn elapsed(&self) -> Duration;

    /// Waits until then. May return earlier: who waits looks at the clock again.
    fn sleep_until(&self, time: Timestamp) -> impl Future<Output = ()> + Send;

    /// Waits until [`elapsed`](Self::elapsed) is this. May return earlier.
    fn sleep_until_elapsed(&self, moment: Duration) -> impl Future<Output = ()> + Send;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Nobody sleeps longer than this without looking at the clock, which somebody may have set.
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
