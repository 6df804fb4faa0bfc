//! The time, as something that is given: a simulation has a clock of its own.

use jiff::Timestamp;
use std::future::Future;
use std::time::Duration;

/// Returns the current time, and sleeps.
pub trait Clock: Send + Sync {
    /// What time it is.
    fn now(&self) -> Timestamp;

    /// Waits until then. May return earlier: who waits looks at the clock again.
    fn sleep_until(&self, time: Timestamp) -> impl Future<Output = ()> + Send;
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

    async fn sleep_until(&self, time: Timestamp) {
        let left = Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default();
        tokio::time::sleep(left.min(LONGEST)).await;
    }
}
