//! What is in the caches of a process, and how their watches do.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// An object of any kind.
pub(crate) type AnyObject = Arc<dyn Any + Send + Sync>;

/// The objects of one kind.
pub(crate) trait Source: Send + Sync {
    /// Their kind.
    fn kind(&self) -> &str;

    /// How many there are.
    fn count(&self) -> usize;

    /// The objects that a controller of this process reconciles. Other processes count the others.
    fn looked_after(&self) -> Vec<AnyObject>;
}

/// All caches of a process. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Sources {
    all: Arc<Mutex<Vec<Weak<dyn Source>>>>,
    failures: Family<[(&'static str, String); 1], Counter>,
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}

impl Sources {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let sources = Self::default();
        registry.register_collector(Box::new(sources.clone()));
        let help = "Failures to list or watch objects of a kind";
        registry.register("capstan_cache_watch_failures", help, sources.failures.clone());
        sources
    }

    pub(super) fn failures(&self, kind: &str) -> Counter {
        self.failures.get_or_create_owned(&[("kind", kind.to_owned())])
    }

    pub(super) fn add(&self, source: &Arc<impl Source + 'static>) {
        // The type is named because the pointer has to forget it.
        let source: Weak<dyn Source> = Arc::downgrade(source) as Weak<dyn Source>;
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(source);
    }

    fn present(&self) -> Vec<Arc<dyn Source>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|source| source.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }

    pub(super) fn objects(&self) -> Vec<AnyObject> {
        self.present().iter().flat_map(|source| source.looked_after()).collect()
    }
}

impl Collector for Sources {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for source in self.present() {
            *counts.entry(source.kind().to_owned()).or_default() += source.count();
        }
        if counts.is_empty() {
            return Ok(());
        }
        let (name, help) = ("capstan_cache_objects", "Objects of a kind in memory");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (kind, count) in counts {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            ConstGauge::new(count).encode(metric.encode_family(&[("kind", kind)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    struct Three;

    impl Source for Three {
        fn kind(&self) -> &'static str {
            "Host"
        }

        fn count(&self) -> usize {
            3
        }

        fn looked_after(&self) -> Vec<AnyObject> {
            Vec::new()
        }
    }

    #[test]
    fn a_cache_is_exposed_as_long_as_it_exists() {
        let (metrics, cache) = (Metrics::default(), Arc::new(Three));
        metrics.expose_cache(&cache);
        metrics.watch_failures("Host").inc();
        let text = metrics.text();
        assert!(text.contains("\ncapstan_cache_objects{kind=\"Host\"} 3\n"), "{text}");
        assert!(text.contains("\ncapstan_cache_watch_failures_total{kind=\"Host\"} 1\n"), "{text}");
        drop(cache);
        assert!(!metrics.text().contains("capstan_cache_objects"));
    }
}
