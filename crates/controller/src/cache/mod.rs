//! Objects of the management cluster, kept in memory: one watch for each kind and process, for all controllers.
//!
//! Whoever reads gets what the watch has brought; before the first list is complete a read waits, because a kind that was
//! not listed yet is not a kind without objects. Whoever listens hears of every object that has come, changed or gone,
//! also while the watch was cut off: what is told is the difference between what the listener has seen and what is there,
//! so that nothing is lost by a slow listener, a new list or an API server that was started again.
//!
//! What is read here may be a moment old. Whoever creates, deletes or claims something on it looks once more, or names the
//! version or the identity of what was read.

mod state;

use futures::{Stream, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Client, Resource, ResourceExt};
use prometheus_client::metrics::counter::Counter;
use serde::de::DeserializeOwned;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use tokio::task::AbortHandle;

use crate::error::{Doing as _, Error, Result, chain, forbidden};
use crate::metrics::{AnyObject, Metrics, Source};
use crate::scope::Scope;
use crate::settings::Settings;
use crate::signal::Signal;
pub use state::Key;
use state::State;

/// How long a read waits for the first list of its kind.
const FIRST_LIST: Duration = Duration::from_secs(30);

/// What is kept of a kind: anything that has metadata.
pub trait Cached: ResourceExt + Clone + Debug + DeserializeOwned + Send + Sync + 'static {}

impl<K> Cached for K where K: ResourceExt + Clone + Debug + DeserializeOwned + Send + Sync + 'static {}

/// The caches of a process. Cheap to clone; all clones share them.
#[derive(Clone)]
pub struct Caches {
    client: Client,
    scope: Scope,
    engine: Engine,
    kinds: Arc<Mutex<HashMap<TypeId, Box<dyn Any + Send>>>>,
}

/// What controllers that run on these caches share. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Engine {
    pub(crate) metrics: Metrics,
    pub(crate) settings: Arc<Settings>,
}

impl Caches {
    /// Nothing is watched before somebody asks.
    pub fn new(client: Client) -> Self {
        Self { client, scope: Scope::default(), engine: Engine::default(), kinds: Arc::default() }
    }

    /// The same, counted in these metrics, with controllers that run as `settings` say. What was watched before is not
    /// shared.
    #[must_use]
    pub fn with_engine(self, metrics: Metrics, settings: Settings) -> Self {
        let engine = Engine { metrics, settings: Arc::new(settings) };
        Self { engine, kinds: Arc::default(), ..self }
    }

    /// The same, watching no more than this. What was watched before is not shared.
    #[must_use]
    pub fn within(self, scope: Scope) -> Self {
        Self { scope, kinds: Arc::default(), ..self }
    }

    /// What the objects are read with.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Objects of a kind, as far as this manager looks.
    pub fn of<K>(&self) -> Cache<K>
    where
        K: Cached + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        self.kept(|| self.scope.api(&self.client))
    }

    /// Objects of a kind that has no namespaces.
    pub fn of_cluster_scoped<K>(&self) -> Cache<K>
    where
        K: Cached + Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
    {
        self.kept(|| Api::all(self.client.clone()))
    }

    fn kept<K>(&self, api: impl FnOnce() -> Api<K>) -> Cache<K>
    where
        K: Cached,
        K::DynamicType: Default + Eq + std::hash::Hash + Clone + Send,
    {
        let mut kinds = lock(&self.kinds);
        if let Some(cache) = kinds.get(&TypeId::of::<K>()).and_then(|cache| cache.downcast_ref::<Cache<K>>())
        {
            return cache.clone();
        }
        let kind = K::kind(&K::DynamicType::default()).into_owned();
        let failures = self.engine.metrics.watch_failures(&kind);
        let mut cache = Cache::begin(api(), watcher::Config::default(), &kind, failures);
        cache.engine = self.engine.clone();
        self.engine.metrics.tell_of(&cache.shared);
        kinds.insert(TypeId::of::<K>(), Box::new(cache.clone()));
        cache
    }
}

/// Objects of one kind. Cheap to clone. The watch ends when nobody has the cache any more.
pub struct Cache<K> {
    shared: Arc<Shared<K>>,
    client: Client,
    watch: Arc<Watch>,
    engine: Engine,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        let Self { shared, client, watch, engine } = self;
        Self {
            shared: Arc::clone(shared),
            client: client.clone(),
            watch: Arc::clone(watch),
            engine: engine.clone(),
        }
    }
}

struct Shared<K> {
    kind: String,
    state: RwLock<State<K>>,
    changed: Signal<Key>,
    /// Whether the first list is complete.
    listed: tokio::sync::watch::Sender<bool>,
    /// What was last said about a watch that fails.
    complaint: Mutex<Option<String>>,
    /// How often it has failed.
    failures: Counter,
    /// What a controller of this process looks after, if there is one.
    looked_after: OnceLock<Scope>,
}

/// Ends with the last clone.
struct Watch(AbortHandle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<K: Cached> Cache<K> {
    /// Watches the kind from now on. `kind` is for people.
    pub fn watching(api: Api<K>, config: watcher::Config, kind: &str) -> Self {
        Self::begin(api, config, kind, Counter::default())
    }

    fn begin(api: Api<K>, config: watcher::Config, kind: &str, failures: Counter) -> Self {
        let shared = Arc::new(Shared {
            kind: kind.to_owned(),
            state: RwLock::default(),
            changed: Signal::default(),
            listed: tokio::sync::watch::Sender::new(false),
            complaint: Mutex::default(),
            failures,
            looked_after: OnceLock::new(),
        });
        let client = api.clone().into_client();
        let watching = tokio::spawn(follow(Arc::clone(&shared), api, config));
        Self { shared, client, watch: Arc::new(Watch(watching.abort_handle())), engine: Engine::default() }
    }

    /// What a controller that runs on this cache is counted in and told.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// A controller of this process looks after these objects from now on.
    pub(crate) fn is_looked_after(&self, scope: &Scope) {
        // An error says that there is another one, which looks after the same.
        _ = self.shared.looked_after.set(scope.clone());
    }

    /// All objects.
    ///
    /// # Errors
    /// If the kind was not listed yet.
    pub async fn all(&self) -> Result<Vec<Arc<K>>> {
        self.listed().await?;
        Ok(self.shared.read().all())
    }

    /// Waits until the first list is complete.
    async fn listed(&self) -> Result<()> {
        let mut listed = self.shared.listed.subscribe();
        let complete = async { listed.wait_for(|listed| *listed).await.is_ok() };
        if tokio::time::timeout(FIRST_LIST, complete).await.unwrap_or(false) {
            return Ok(());
        }
        let why = lock(&self.shared.complaint).clone();
        let why = why.unwrap_or_else(|| format!("there is no answer after {FIRST_LIST:?}"));
        Err(Error::transient(format!("cannot list objects of kind {}", self.shared.kind), why))
    }

    /// What is in memory at this moment; nothing before the first list is complete.
    pub(crate) fn now(&self, key: &Key) -> Option<Arc<K>> {
        self.shared.read().get(key)
    }

    /// Names of objects that have come, changed or gone, and at first of all that are there.
    pub fn keys(&self) -> impl Stream<Item = Key> + Send + 'static + use<K> {
        let shared = Arc::clone(&self.shared);
        self.shared.changed.listen_from(move || shared.read().keys())
    }

    /// Objects that have come, gone, or differ in what `facts` looks at; and at first all that are there. What others do
    /// not care about, such as a status that changes every second, is not told. Of an object that has changed both are
    /// told, what it was and what it is: whoever it belonged to may have to know.
    pub fn changed<F, N>(&self, facts: N) -> impl Stream<Item = Arc<K>> + Send + 'static + use<K, F, N>
    where
        F: PartialEq,
        N: Fn(&K) -> F + Send + 'static,
    {
        let cache = self.clone();
        let mut known: HashMap<Key, Arc<K>> = HashMap::new();
        let news = move |key: Key| {
            let now = cache.now(&key);
            let before = match &now {
                Some(now) => known.insert(key, Arc::clone(now)),
                None => known.remove(&key),
            };
            let is_same = match (&before, &now) {
                (Some(before), Some(now)) => {
                    before.meta().uid == now.meta().uid && facts(before) == facts(now)
                }
                (None, None) => true,
                _ => false,
            };
            let told = [before, now].into_iter().flatten().filter(move |_| !is_same);
            futures::stream::iter(told.collect::<Vec<_>>())
        };
        self.keys().flat_map(news)
    }
}

impl<K> Cache<K>
where
    K: Cached + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    /// The object of a name. One that is not in memory may be too new for that: the API server is asked.
    ///
    /// # Errors
    /// If the kind was not listed yet, or the API server does not answer.
    pub async fn get(&self, namespace: &str, name: &str) -> Result<Option<Arc<K>>> {
        self.listed().await?;
        if let Some(found) = self.shared.read().get(&Key::new(namespace, name)) {
            return Ok(Some(found));
        }
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(name).await;
        let found = found.doing(|| format!("cannot read {} {namespace}/{name}", self.shared.kind))?;
        Ok(found.map(Arc::new))
    }

    /// All objects of a namespace, by name.
    ///
    /// # Errors
    /// If the kind was not listed yet.
    pub async fn in_namespace(&self, namespace: &str) -> Result<Vec<Arc<K>>> {
        self.listed().await?;
        Ok(self.shared.read().in_namespace(namespace))
    }

    /// All objects that the label `cluster.x-k8s.io/cluster-name` gives to a Cluster, by name.
    ///
    /// # Errors
    /// If the kind was not listed yet.
    pub async fn of_cluster(&self, namespace: &str, cluster: &str) -> Result<Vec<Arc<K>>> {
        self.listed().await?;
        Ok(self.shared.read().of_cluster(namespace, cluster))
    }
}

impl<K> Shared<K> {
    fn read(&self) -> RwLockReadGuard<'_, State<K>> {
        // Changes are made by one task, each as a whole: a panic elsewhere has not broken anything.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<K>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Cached> Source for Shared<K> {
    fn kind(&self) -> &str {
        &self.kind
    }

    fn count(&self) -> usize {
        self.read().count()
    }

    fn looked_after(&self) -> Vec<AnyObject> {
        let Some(scope) = self.looked_after.get() else { return Vec::new() };
        let all = self.read().all();
        all.into_iter()
            .filter(|object| scope.is_own(object.as_ref()))
            .map(|object| object as AnyObject)
            .collect()
    }
}

/// Keeps the state as the API server has it, for ever.
async fn follow<K: Cached>(shared: Arc<Shared<K>>, api: Api<K>, config: watcher::Config) {
    let mut events = std::pin::pin!(watch(api, config).default_backoff());
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let changed = match event {
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listed.push(lean(object));
                continue;
            }
            Ok(Event::InitDone) => shared.write().replace(std::mem::take(&mut listed)),
            Ok(Event::Apply(object)) => shared.write().put(lean(object)).into_iter().collect(),
            Ok(Event::Delete(object)) => shared.write().remove(&Key::of(&object)).into_iter().collect(),
            Err(error) => {
                shared.failures.inc();
                complain(&shared, &error);
                continue;
            }
        };
        lock(&shared.complaint).take();
        shared.listed.send_if_modified(|listed| !std::mem::replace(listed, true));
        for key in changed {
            shared.changed.tell(&key);
        }
    }
}

/// Without what no controller reads and what is often half of an object.
fn lean<K: ResourceExt>(mut object: K) -> Arc<K> {
    object.managed_fields_mut().clear();
    Arc::new(object)
}

/// Says what is wrong with a watch, once and not with every attempt: it lasts until somebody gives a right, or for good.
fn complain<K>(shared: &Shared<K>, error: &watcher::Error) {
    let told = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status)
            if status.code == 403 =>
        {
            forbidden(&status.message)
        }
        other => chain(other),
    };
    let mut complaint = lock(&shared.complaint);
    if complaint.as_ref() != Some(&told) {
        tracing::warn!(kind = shared.kind, error = told, "watch failed; trying again");
        *complaint = Some(told);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing inside is half changed when a panic happens elsewhere.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
