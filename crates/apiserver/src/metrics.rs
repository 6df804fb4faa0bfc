//! Requests, watches and objects of the server as metrics, under the names of kube-apiserver.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use capstan_text::exposition;
use prometheus_client::{
    encoding::text::encode,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
    registry::Registry,
};

/// Upper bounds of the buckets of durations, in seconds.
const BUCKETS: [f64; 9] = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// What a request was: few values each, whatever clients send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labels {
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) code: u16,
}

type Label = (&'static str, String);
type ByCode = [Label; 4];
type ByResource = [Label; 3];

/// Counts requests. One for each server.
pub(crate) struct Metrics {
    requests: Family<ByCode, Counter>,
    /// Of any code, and without watches, which take as long as the client watches.
    durations: Family<ByResource, Histogram, fn() -> Histogram>,
    watches: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            watches: Gauge::default(),
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// A watch that goes on; dropped at its end.
pub(crate) struct Watching(Arc<Metrics>);

impl Metrics {
    /// Notes a request that has been answered.
    pub(crate) fn note(&self, labels: Labels, took: Duration) {
        let Labels { verb, group, resource, code } = labels;
        let own = [("verb", verb.to_owned()), ("group", group), ("resource", resource)];
        if verb != "watch" {
            self.durations.get_or_create_owned(&own).observe(took.as_secs_f64());
        }
        let [verb, group, resource] = own;
        self.requests.get_or_create_owned(&[verb, group, resource, ("code", code.to_string())]).inc();
    }

    /// Notes a watch that begins.
    pub(crate) fn watch(self: &Arc<Self>) -> Watching {
        self.watches.inc();
        Watching(Arc::clone(self))
    }

    /// Everything, with how many objects there are of each resource, the seats of each priority level, and the revision of the
    /// store.
    pub(crate) fn text(
        &self,
        objects: &BTreeMap<String, usize>,
        seats: &BTreeMap<String, usize>,
        revision: u64,
    ) -> String {
        let watches = Family::<[Label; 1], Gauge>::default();
        watches.get_or_create_owned(&[("verb", "watch".to_owned())]).set(self.watches.get());
        let counted = |label: &'static str, counts: &BTreeMap<String, usize>| {
            let counted = Family::<[Label; 1], Gauge>::default();
            for (name, count) in counts {
                let count = i64::try_from(*count).unwrap_or(i64::MAX);
                counted.get_or_create_owned(&[(label, name.clone())]).set(count);
            }
            counted
        };
        // The library adds `_total` to counters and a full stop to each help.
        let mut registry = Registry::default();
        registry.register("apiserver_request", "Requests that were answered", self.requests.clone());
        let help = "How long requests took, but for watches";
        registry.register("apiserver_request_duration_seconds", help, self.durations.clone());
        registry.register("apiserver_longrunning_requests", "Watches in progress", watches);
        registry.register("apiserver_resource_objects", "Objects in the store", counted("resource", objects));
        let help = "Requests of a priority level that are worked on at the same time";
        registry.register(
            "apiserver_flowcontrol_nominal_limit_seats",
            help,
            counted("priority_level", seats),
        );
        let help = "The last revision that was written";
        registry.register("apiserver_storage_revision", help, ConstGauge::new(revision));
        let mut open = String::new();
        // Writing to a String cannot fail.
        _ = encode(&mut open, &registry);
        exposition::from_open_metrics(&open)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.watches.dec();
    }
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
        let one = |name: &str, count| BTreeMap::from([(name.to_owned(), count)]);
        let text = metrics.text(&one("secrets", 7), &one("catch-all", 32), 12);
        for line in [
            "apiserver_request_total{verb=\"get\",group=\"\",resource=\"secrets\",code=\"404\"} 1",
            "apiserver_request_duration_seconds_bucket{le=\"0.001\",verb=\"get\",group=\"\",resource=\"secrets\"} 0",
            "apiserver_request_duration_seconds_bucket{le=\"0.005\",verb=\"get\",group=\"\",resource=\"secrets\"} 1",
            "apiserver_request_duration_seconds_bucket{le=\"+Inf\",verb=\"get\",group=\"\",resource=\"secrets\"} 2",
            "apiserver_request_duration_seconds_count{verb=\"get\",group=\"\",resource=\"secrets\"} 2",
            "apiserver_longrunning_requests{verb=\"watch\"} 1",
            "apiserver_resource_objects{resource=\"secrets\"} 7",
            "apiserver_flowcontrol_nominal_limit_seats{priority_level=\"catch-all\"} 32",
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
        let text = metrics.text(&BTreeMap::new(), &BTreeMap::new(), 12);
        assert!(text.contains("apiserver_longrunning_requests{verb=\"watch\"} 0"));
    }
}
