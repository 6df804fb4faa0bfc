//! Metrics of controllers, queues, caches and objects, under the names of controller-runtime and of Cluster API.
//!
//! A process has one [`Metrics`]. It is handed to [`crate::Caches`]; [`crate::run`] counts every reconcile on one of their
//! caches in it. A scrape reads memory only and makes no request.
//!
//! What must not live here: serving, authentication and authorization.

mod caches;
mod progress;
mod reconciles;
mod requests;
mod state;
mod waits;

use capstan_text::exposition;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::sync::Arc;

use crate::queue::Limits;
use caches::Sources;
pub(crate) use caches::{AnyObject, Source};
pub use capstan_text::exposition::CONTENT_TYPE;
use progress::Progress;
use reconciles::Reconciles;
pub(crate) use reconciles::Recorder;
use requests::Requests;
pub use requests::{CountRequests, Counted};

/// The metrics of this process. Cheap to clone; all clones share them.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    reconciles: Reconciles,
    progress: Progress,
    requests: Requests,
    sources: Sources,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let reconciles = Reconciles::register(&mut registry);
        let progress = Progress::default();
        registry.register_collector(Box::new(progress.clone()));
        let requests = Requests::register(&mut registry);
        let sources = Sources::register(&mut registry);
        Self(Arc::new(Inner { registry, reconciles, progress, requests, sources }))
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// All metrics, in the format of [`CONTENT_TYPE`].
    pub fn text(&self) -> String {
        let mut open = String::new();
        // Writing to a String cannot fail.
        _ = encode(&mut open, &self.0.registry);
        let mut text = exposition::from_open_metrics(&open);
        let objects = self.0.sources.objects();
        state::write(&mut text, &objects);
        waits::write(&mut text, &objects);
        text
    }

    /// A layer that counts the requests to this host.
    pub fn count_requests(&self, host: &str) -> CountRequests {
        self.0.requests.layer(host)
    }

    /// Counts what a controller does.
    pub(crate) fn controller(&self, name: &'static str, limits: Limits) -> Recorder {
        self.0.reconciles.recorder(name, limits, self.0.progress.of(name))
    }

    /// Counts failures of the watch of a kind.
    pub(crate) fn watch_failures(&self, kind: &str) -> prometheus_client::metrics::counter::Counter {
        self.0.sources.failures(kind)
    }

    /// Exposes the objects of a cache as long as the cache exists.
    pub(crate) fn expose_cache(&self, source: &Arc<impl Source + 'static>) {
        self.0.sources.add(source);
    }
}

#[cfg(test)]
mod tests;
