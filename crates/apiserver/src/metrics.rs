//! What the server has done, in the words and the format that Prometheus reads and kube-apiserver uses.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

/// Upper bounds of the buckets of durations, in seconds.
const BUCKETS: [f64; 9] = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// What a request was: few values each, whatever clients send.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Labels {
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) code: u16,
}

#[derive(Clone, Copy, Debug, Default)]
struct Series {
    count: u64,
    seconds: f64,
    /// How many took at most as long as each bound.
    within: [u64; BUCKETS.len()],
}

/// Counts requests. One for each server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<Labels, Series>>,
    watches: AtomicI64,
}

/// A watch that goes on; dropped at its end.
pub(crate) struct Watching(Arc<Metrics>);

impl Metrics {
    /// Notes a request that has been answered.
    pub(crate) fn note(&self, labels: Labels, took: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let series = requests.entry(labels).or_default();
        let seconds = took.as_secs_f64();
        series.count += 1;
        series.seconds += seconds;
        for (within, bound) in series.within.iter_mut().zip(BUCKETS) {
            *within += u64::from(seconds <= bound);
        }
    }

    /// Notes a watch that begins.
    pub(crate) fn watch(self: &Arc<Self>) -> Watching {
        self.watches.fetch_add(1, Ordering::Relaxed);
        Watching(Arc::clone(self))
    }

    /// Everything, with how many objects there are of each resource, and the revision of the store.
    pub(crate) fn text(&self, objects: &BTreeMap<String, usize>, revision: u64) -> String {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = String::new();
        head(&mut text, "apiserver_request_total", "counter", "Requests that were answered.");
        for (Labels { verb, group, resource, code }, series) in &requests {
            // Writing to a String cannot fail.
            _ = writeln!(
                text,
                "apiserver_request_total{{verb=\"{verb}\",group=\"{group}\",resource=\"{resource}\",code=\"{code}\"}} {}",
                series.count
            );
        }
        let name = "apiserver_request_duration_seconds";
        head(&mut text, name, "histogram", "How long requests took, but for watches.");
        for ((verb, group, resource), series) in durations(&requests) {
            let labels = format!("verb=\"{verb}\",group=\"{group}\",resource=\"{resource}\"");
            for (within, bound) in series.within.iter().zip(BUCKETS) {
                _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {within}");
            }
            _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", series.count);
            _ = writeln!(text, "{name}_sum{{{labels}}} {}", series.seconds);
            _ = writeln!(text, "{name}_count{{{labels}}} {}", series.count);
        }
        head(&mut text, "apiserver_longrunning_requests", "gauge", "Watches that go on.");
        let watches = self.watches.load(Ordering::Relaxed);
        _ = writeln!(text, "apiserver_longrunning_requests{{verb=\"watch\"}} {watches}");
        head(&mut text, "apiserver_resource_objects", "gauge", "Objects in the store.");
        for (resource, count) in objects {
            _ = writeln!(text, "apiserver_resource_objects{{resource=\"{resource}\"}} {count}");
        }
        head(&mut text, "apiserver_storage_revision", "gauge", "The last revision that was written.");
        _ = writeln!(text, "apiserver_storage_revision {revision}");
        text
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Ordering::Relaxed);
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Whatever the code was, and without watches, which take as long as somebody looks.
fn durations(requests: &BTreeMap<Labels, Series>) -> BTreeMap<(&'static str, &str, &str), Series> {
    let mut all: BTreeMap<(&'static str, &str, &str), Series> = BTreeMap::new();
    for (labels, series) in requests.iter().filter(|(labels, _)| labels.verb != "watch") {
        let sum = all.entry((labels.verb, &labels.group, &labels.resource)).or_default();
        sum.count += series.count;
        sum.seconds += series.seconds;
        for (sum, within) in sum.within.iter_mut().zip(series.within) {
            *sum += within;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_and_timed() {
        let metrics = Arc::new(Metrics::default());
        let labels = |verb, code| Labels { verb, group: String::new(), resource: "secrets".to_owned(), code };
        metrics.note(labels("get", 200), Duration::from_millis(3));
        metrics.note(labels("get", 404), Duration::from_secs(60));
        metrics.note(labels("watch", 200), Duration::from_secs(60));
        let watching = metrics.watch();
        let text = metrics.text(&BTreeMap::from([("secrets".to_owned(), 7)]), 12);
        for line in [
            "apiserver_request_total{verb=\"get\",group=\"\",resource=\"secrets\",code=\"404\"} 1",
            "apiserver_request_duration_seconds_bucket{verb=\"get\",group=\"\",resource=\"secrets\",le=\"0.001\"} 0",
            "apiserver_request_duration_seconds_bucket{verb=\"get\",group=\"\",resource=\"secrets\",le=\"0.005\"} 1",
            "apiserver_request_duration_seconds_bucket{verb=\"get\",group=\"\",resource=\"secrets\",le=\"+Inf\"} 2",
            "apiserver_request_duration_seconds_count{verb=\"get\",group=\"\",resource=\"secrets\"} 2",
            "apiserver_longrunning_requests{verb=\"watch\"} 1",
            "apiserver_resource_objects{resource=\"secrets\"} 7",
            "apiserver_storage_revision 12",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("duration_seconds_count{verb=\"watch\""));
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
        let page = std::fs::read_to_string(page).expect("docs/reference/metrics.md");
        for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
            assert!(
                page.contains(&format!("| `{name}` |")),
                "docs/reference/metrics.md does not name {name}"
            );
        }
        drop(watching);
        assert!(
            metrics.text(&BTreeMap::new(), 12).contains("apiserver_longrunning_requests{verb=\"watch\"} 0")
        );
    }
}
