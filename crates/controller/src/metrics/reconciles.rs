//! Reconciles and the queues they are taken from, by controller: names and labels of controller-runtime.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::time::Duration;
use tokio::task::Id;

use super::progress::InProgress;
use crate::queue::{Limits, Verdict};

type ByController = [(&'static str, &'static str); 1];
type ByResult = [(&'static str, &'static str); 2];
/// Queues are called as their controllers.
type ByQueue = [(&'static str, &'static str); 2];
type Histograms<Labels> = Family<Labels, Histogram, fn() -> Histogram>;

/// How a reconcile has ended.
const SUCCESS: &str = "success";
const ERROR: &str = "error";
const REQUEUE: &str = "requeue";
const REQUEUE_AFTER: &str = "requeue_after";

/// Upper bounds in seconds, the same as upstream's, so that its dashboards show the same.
const RECONCILE_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];

fn reconcile_histogram() -> Histogram {
    Histogram::new(RECONCILE_BUCKETS)
}

/// From ten nanoseconds to a thousand seconds, as upstream.
fn queue_histogram() -> Histogram {
    Histogram::new(exponential_buckets(1e-8, 10.0, 12))
}

/// All controllers of a process.
pub(super) struct Reconciles {
    total: Family<ByResult, Counter>,
    errors: Family<ByController, Counter>,
    terminal_errors: Family<ByController, Counter>,
    panics: Family<ByController, Counter>,
    time: Histograms<ByController>,
    active: Family<ByController, Gauge>,
    most: Family<ByController, Gauge>,
    depth: Family<ByQueue, Gauge>,
    adds: Family<ByQueue, Counter>,
    retries: Family<ByQueue, Counter>,
    waited: Histograms<ByQueue>,
    worked: Histograms<ByQueue>,
}

impl Reconciles {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self {
            total: Family::default(),
            errors: Family::default(),
            terminal_errors: Family::default(),
            panics: Family::default(),
            time: Family::new_with_constructor(reconcile_histogram),
            active: Family::default(),
            most: Family::default(),
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            waited: Family::new_with_constructor(queue_histogram),
            worked: Family::new_with_constructor(queue_histogram),
        };
        // The library adds `_total` to counters.
        registry.register("controller_runtime_reconcile", "Reconciles that have ended", all.total.clone());
        registry.register(
            "controller_runtime_reconcile_errors",
            "Reconciles that failed",
            all.errors.clone(),
        );
        registry.register(
            "controller_runtime_terminal_reconcile_errors",
            "Reconciles that failed because of something that only the user can change",
            all.terminal_errors.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_panics",
            "Reconciles that panicked",
            all.panics.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Seconds that reconciles took",
            all.time.clone(),
        );
        registry.register("controller_runtime_active_workers", "Reconciles in progress", all.active.clone());
        registry.register(
            "controller_runtime_max_concurrent_reconciles",
            "Reconciles that may be in progress at the same time",
            all.most.clone(),
        );
        registry.register("workqueue_depth", "Objects that are due and wait for a worker", all.depth.clone());
        registry.register("workqueue_adds", "Objects that have become due", all.adds.clone());
        registry.register(
            "workqueue_retries",
            "Objects that were requeued with a delay",
            all.retries.clone(),
        );
        registry.register(
            "workqueue_queue_duration_seconds",
            "Seconds that objects were due before their reconcile began",
            all.waited.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "Seconds that objects taken from the queue were worked on",
            all.worked.clone(),
        );
        all
    }

    pub(super) fn recorder(&self, name: &'static str, limits: Limits, progress: InProgress) -> Recorder {
        let (own, queue) = ([("controller", name)], [("name", name), ("controller", name)]);
        let result = |result| self.total.get_or_create_owned(&[("controller", name), ("result", result)]);
        let most = i64::try_from(limits.at_once).unwrap_or(i64::MAX);
        self.most.get_or_create_owned(&own).set(most);
        // All of them are there from the start: a counter that appears with its first count has no rate.
        Recorder {
            success: result(SUCCESS),
            error: result(ERROR),
            requeue: result(REQUEUE),
            requeue_after: result(REQUEUE_AFTER),
            errors: self.errors.get_or_create_owned(&own),
            terminal_errors: self.terminal_errors.get_or_create_owned(&own),
            panics: self.panics.get_or_create_owned(&own),
            time: self.time.get_or_create_owned(&own),
            active: self.active.get_or_create_owned(&own),
            depth: self.depth.get_or_create_owned(&queue),
            adds: self.adds.get_or_create_owned(&queue),
            retries: self.retries.get_or_create_owned(&queue),
            waited: self.waited.get_or_create_owned(&queue),
            worked: self.worked.get_or_create_owned(&queue),
            progress,
            added: 0,
        }
    }
}

/// Counts what one controller does.
pub(crate) struct Recorder {
    success: Counter,
    error: Counter,
    requeue: Counter,
    requeue_after: Counter,
    errors: Counter,
    terminal_errors: Counter,
    panics: Counter,
    time: Histogram,
    active: Gauge,
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    waited: Histogram,
    worked: Histogram,
    progress: InProgress,
    /// How many have been counted in `adds`.
    added: u64,
}

impl Recorder {
    /// The queue as it is now: how many objects have ever become due, how many of them still wait, and how many
    /// reconciles are in progress.
    pub(crate) fn queue(&mut self, added: u64, waiting: usize, running: usize) {
        self.adds.inc_by(added.saturating_sub(self.added));
        self.added = added;
        self.depth.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.active.set(i64::try_from(running).unwrap_or(i64::MAX));
    }

    /// An object was taken from the queue that was due for so long.
    pub(crate) fn taken(&self, waited: Duration) {
        self.waited.observe(waited.as_secs_f64());
    }

    /// Its reconcile has begun.
    pub(crate) fn begun(&self, id: Id) {
        self.progress.begin(id);
    }

    /// Its reconcile has ended.
    pub(crate) fn ended(&self, id: Id, verdict: Verdict, panicked: bool) {
        let took = self.progress.end(id).unwrap_or_default().as_secs_f64();
        self.time.observe(took);
        self.worked.observe(took);
        if panicked {
            self.panics.inc();
        }
        match verdict {
            Verdict::Changed => self.success.inc(),
            Verdict::After(_) => self.requeue_after.inc(),
            Verdict::Conflict => self.requeue.inc(),
            Verdict::Refused => {
                self.terminal_errors.inc();
                self.errors.inc();
                self.error.inc()
            }
            Verdict::Failed => {
                self.errors.inc();
                self.error.inc()
            }
        };
        if verdict != Verdict::Changed {
            self.retries.inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    fn lines(metrics: &Metrics) -> Vec<String> {
        metrics.text().lines().map(str::to_owned).collect()
    }

    #[tokio::test]
    async fn reconciles_are_counted_by_how_they_end() {
        let metrics = Metrics::default();
        let mut recorder = metrics.controller("machine", Limits::default());
        let verdicts = [
            (Verdict::Changed, false),
            (Verdict::Changed, false),
            (Verdict::After(Duration::from_secs(1)), false),
            (Verdict::Conflict, false),
            (Verdict::Refused, false),
            (Verdict::Failed, false),
            (Verdict::Failed, true),
        ];
        for (verdict, panicked) in verdicts {
            let id = tokio::spawn(async {}).id();
            recorder.taken(Duration::from_secs(2));
            recorder.begun(id);
            recorder.ended(id, verdict, panicked);
        }
        recorder.queue(9, 2, 1);
        recorder.queue(11, 3, 1);
        let (text, by, queue) =
            (lines(&metrics), "controller=\"machine\"", "name=\"machine\",controller=\"machine\"");
        for line in [
            format!("controller_runtime_reconcile_total{{{by},result=\"success\"}} 2"),
            format!("controller_runtime_reconcile_total{{{by},result=\"requeue_after\"}} 1"),
            format!("controller_runtime_reconcile_total{{{by},result=\"requeue\"}} 1"),
            format!("controller_runtime_reconcile_total{{{by},result=\"error\"}} 3"),
            format!("controller_runtime_reconcile_errors_total{{{by}}} 3"),
            format!("controller_runtime_terminal_reconcile_errors_total{{{by}}} 1"),
            format!("controller_runtime_reconcile_panics_total{{{by}}} 1"),
            format!("controller_runtime_reconcile_time_seconds_count{{{by}}} 7"),
            format!("controller_runtime_active_workers{{{by}}} 1"),
            format!("controller_runtime_max_concurrent_reconciles{{{by}}} 50"),
            format!("workqueue_depth{{{queue}}} 3"),
            format!("workqueue_adds_total{{{queue}}} 11"),
            format!("workqueue_retries_total{{{queue}}} 5"),
            format!("workqueue_queue_duration_seconds_sum{{{queue}}} 14.0"),
            format!("workqueue_work_duration_seconds_count{{{queue}}} 7"),
            format!("workqueue_unfinished_work_seconds{{{queue}}} 0.0"),
            format!("workqueue_longest_running_processor_seconds{{{queue}}} 0.0"),
        ] {
            assert!(text.contains(&line), "{line}\n{}", text.join("\n"));
        }
    }

    #[test]
    fn a_controller_that_has_done_nothing_is_there_with_zeros() {
        let metrics = Metrics::default();
        metrics.controller("cluster", Limits::default());
        for result in [SUCCESS, ERROR, REQUEUE, REQUEUE_AFTER] {
            let line =
                format!("controller_runtime_reconcile_total{{controller=\"cluster\",result=\"{result}\"}} 0");
            assert!(lines(&metrics).contains(&line), "{line}");
        }
    }
}
