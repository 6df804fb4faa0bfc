//! The loop that runs a reconciler. It reconciles an object after each change of the object, and whenever another object
//! names it. [`crate::queue`] decides when.

use futures::{Stream, StreamExt as _};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tracing::Instrument as _;

use capstan_api::meta::labels::CLUSTER_NAME;

use crate::cache::{Cache, Key};
use crate::error::{Error, Result, chain};
use crate::metrics::Recorder;
use crate::queue::{Limits, Queue, Verdict};
use crate::scope::Scope;
use crate::status_delay;

/// When to reconcile the object next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// After the next event.
    Changed,
    /// After this time, or earlier if an event arrives.
    After(Duration),
}

impl Next {
    /// The earlier of the two.
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::After(a), Self::After(b)) => Self::After(a.min(b)),
            (Self::After(time), Self::Changed) | (Self::Changed, Self::After(time)) => Self::After(time),
            (Self::Changed, Self::Changed) => Self::Changed,
        }
    }
}

/// Reconciles objects of one kind.
pub trait Reconciler: Send + Sync + 'static {
    /// The kind it reconciles.
    type Object: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static;

    /// Name for logs and metrics.
    fn name(&self) -> &'static str;

    /// Concurrency, and how often one object is reconciled.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Fields and conditions of the status that only people read, because no controller acts on them. Their changes may be
    /// written a little later.
    fn summaries(&self) -> &'static [&'static str] {
        &[]
    }

    /// One step. May be called at any time, any number of times, and may be cut short anywhere.
    fn reconcile(&self, object: Arc<Self::Object>) -> impl Future<Output = Result<Next>> + Send;
}

/// Runs `reconciler` until `stop` completes: for every object in `cache` that is in `scope`, at each change, and
/// whenever `also` names it. Other objects that `also` names are ignored. Reconciles that have started are completed.
pub async fn run<R: Reconciler>(
    reconciler: R,
    cache: Cache<R::Object>,
    scope: Scope,
    also: impl Stream<Item = ObjectRef<R::Object>> + Send + 'static,
    stop: impl Future<Output = ()> + Send,
) {
    let limits = cache.engine().settings.limits(reconciler.name(), reconciler.limits());
    cache.is_looked_after(&scope);
    let mut desk = Desk {
        recorder: cache.engine().metrics.controller(reconciler.name(), limits),
        reconciler: Arc::new(reconciler),
        cache,
        scope,
        queue: Queue::new(limits),
        began: Instant::now(),
        looks: JoinSet::new(),
        keys: HashMap::new(),
    };
    let mut own = std::pin::pin!(desk.cache.keys());
    let mut also = std::pin::pin!(also.map(|object| key_of(&object)).fuse());
    let mut stop = std::pin::pin!(stop);
    loop {
        desk.begin();
        let due = desk.queue.wakes_at().map(|at| desk.began + at);
        tokio::select! {
            () = &mut stop => break,
            Some(key) = own.next() => desk.ask(&key),
            Some(key) = also.next() => desk.ask(&key),
            Some(ended) = desk.looks.join_next_with_id() => desk.end(ended),
            () = until(due) => {}
        }
    }
    while desk.looks.join_next().await.is_some() {}
}

/// The queue of one loop, and the reconciles in progress.
struct Desk<R: Reconciler> {
    recorder: Recorder,
    reconciler: Arc<R>,
    cache: Cache<R::Object>,
    scope: Scope,
    queue: Queue<Key>,
    began: Instant,
    looks: JoinSet<(Verdict, bool)>,
    /// The object of each reconcile in progress.
    keys: HashMap<Id, Key>,
}

impl<R: Reconciler> Desk<R> {
    fn ask(&mut self, key: &Key) {
        let lane = self.cache.now(key).map_or_else(|| key.namespace.clone(), |object| lane(object.as_ref()));
        self.queue.ask(key, &lane, self.began.elapsed());
    }

    /// Starts as many reconciles as the limits allow.
    fn begin(&mut self) {
        while let Some(key) = self.queue.next(self.began.elapsed()) {
            let due = self.queue.was_due(&key).unwrap_or_default();
            self.recorder.taken(self.began.elapsed().saturating_sub(due));
            let object = self.cache.now(&key);
            let Some(object) = object.filter(|object| self.scope.is_own(object.as_ref())) else {
                self.queue.gone(&key);
                continue;
            };
            let (reconciler, named) = (Arc::clone(&self.reconciler), key.clone());
            let may_delay_status = self.queue.may_delay_status(&key, self.began.elapsed());
            let span = tracing::debug_span!("reconcile", controller = reconciler.name(), object = %key);
            let reconcile = async move {
                let (name, summaries) = (reconciler.name(), reconciler.summaries());
                status_delay::run(
                    name,
                    may_delay_status,
                    summaries,
                    look(reconciler.as_ref(), object, &named),
                )
                .await
            };
            let look = self.looks.spawn(reconcile.instrument(span));
            self.recorder.begun(look.id());
            self.keys.insert(look.id(), key);
        }
        self.recorder.queue(self.queue.added(), self.queue.waiting(), self.queue.running());
    }

    fn end(&mut self, ended: std::result::Result<(Id, (Verdict, bool)), JoinError>) {
        let (id, verdict, has_delayed, panicked) = match ended {
            Ok((id, (verdict, has_delayed))) => (id, verdict, has_delayed, false),
            Err(error) => {
                tracing::error!(controller = self.reconciler.name(), %error, "a look has ended in a panic");
                (error.id(), Verdict::Failed, false, error.is_panic())
            }
        };
        self.recorder.ended(id, verdict, panicked);
        if let Some(key) = self.keys.remove(&id) {
            self.queue.delayed_status(&key, has_delayed);
            self.queue.done(&key, verdict, self.began.elapsed());
        }
    }
}

/// One reconcile, and its result.
async fn look<R: Reconciler>(reconciler: &R, object: Arc<R::Object>, key: &Key) -> Verdict {
    let controller = reconciler.name();
    match reconciler.reconcile(object).await {
        Ok(Next::Changed) => Verdict::Changed,
        Ok(Next::After(time)) => Verdict::After(time),
        Err(error) => {
            let error_text = chain(&error);
            match error {
                Error::Conflict { .. } => {
                    tracing::debug!(controller, object = %key, error = error_text, "trying again");
                    Verdict::Conflict
                }
                Error::User { .. } => {
                    tracing::warn!(controller, object = %key, error = error_text, "waits for a change");
                    Verdict::Refused
                }
                Error::Transient { .. } | Error::Forbidden { .. } => {
                    tracing::warn!(controller, object = %key, error = error_text, "failed; trying again");
                    Verdict::Failed
                }
            }
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// A reference to an object by namespace and name.
pub fn reference<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> ObjectRef<K> {
    ObjectRef::new(name).within(namespace)
}

fn key_of<K: Resource<DynamicType = ()>>(object: &ObjectRef<K>) -> Key {
    Key::new(object.namespace.as_deref().unwrap_or_default(), &object.name)
}

/// Objects of one cluster share a lane.
fn lane<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let namespace = object.namespace().unwrap_or_default();
    let cluster = match K::kind(&()) == "Cluster" {
        true => object.name_any(),
        false => object.labels().get(CLUSTER_NAME).cloned().unwrap_or_default(),
    };
    format!("{namespace}/{cluster}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sooner_look_counts() {
        let (short, long) = (Next::After(Duration::from_secs(1)), Next::After(Duration::from_secs(9)));
        assert_eq!(short.or(long), short);
        assert_eq!(Next::Changed.or(long), long);
        assert_eq!(Next::Changed.or(Next::Changed), Next::Changed);
    }
}
