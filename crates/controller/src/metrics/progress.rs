//! Reconciles in progress. The time they have taken so far is computed at each scrape.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::Id;

/// Of all controllers, by name. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress(Arc<Mutex<BTreeMap<&'static str, InProgress>>>);

/// When each reconcile of one controller began.
#[derive(Clone, Debug, Default)]
pub(super) struct InProgress(Arc<Mutex<HashMap<Id, Instant>>>);

impl Progress {
    pub(super) fn of(&self, controller: &'static str) -> InProgress {
        lock(&self.0).entry(controller).or_default().clone()
    }
}

impl InProgress {
    pub(super) fn begin(&self, id: Id) {
        lock(&self.0).insert(id, Instant::now());
    }

    /// How long it has taken.
    pub(super) fn end(&self, id: Id) -> Option<Duration> {
        lock(&self.0).remove(&id).map(|began| began.elapsed())
    }

    fn so_far(&self, now: Instant) -> SoFar {
        SoFar::of(lock(&self.0).values().map(|began| now.saturating_duration_since(*began)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing inside is half changed when a panic happens elsewhere.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time that reconciles have taken so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SoFar {
    sum: Duration,
    longest: Duration,
}

impl SoFar {
    fn of(times: impl Iterator<Item = Duration>) -> Self {
        times.fold(Self::default(), |all, time| Self { sum: all.sum + time, longest: all.longest.max(time) })
    }
}

impl Collector for Progress {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let now = Instant::now();
        let all: Vec<(&str, SoFar)> =
            lock(&self.0).iter().map(|(controller, progress)| (*controller, progress.so_far(now))).collect();
        let mut write = |name: &str, help: &str, value: fn(&SoFar) -> Duration| {
            if all.is_empty() {
                return Ok(());
            }
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (controller, so_far) in &all {
                let labels = [("name", *controller), ("controller", *controller)];
                ConstGauge::new(value(so_far).as_secs_f64()).encode(metric.encode_family(&labels)?)?;
            }
            Ok(())
        };
        write(
            "workqueue_unfinished_work_seconds",
            "Seconds that the reconciles in progress have taken so far, in sum",
            |so_far| so_far.sum,
        )?;
        write(
            "workqueue_longest_running_processor_seconds",
            "Seconds that the longest reconcile in progress has taken so far",
            |so_far| so_far.longest,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_progress_is_summed_and_its_longest_reported() {
        let times = [3, 5, 1].map(Duration::from_secs);
        let expected = SoFar { sum: Duration::from_secs(9), longest: Duration::from_secs(5) };
        assert_eq!(SoFar::of(times.into_iter()), expected);
        assert_eq!(SoFar::of(std::iter::empty()), SoFar::default());
    }
}
