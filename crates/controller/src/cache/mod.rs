//! Objects of the management cluster, cached in memory. Each kind has one watch per process, which all controllers share.
//!
//! A read returns the state that the watch has delivered. Before the first list is complete a read waits, because an
//! unlisted kind is not an empty kind. A listener receives the key of every object that is created, changed or deleted.
//! The cache compares what the listener has seen with the current state, so a slow listener, a new list or a restart of the
//! API server loses no event.
//!
//! Writes of this process are in the cache at once ([`echo`]). Writes of other clients may be missing for a moment. A
//! controller that creates, deletes or claims an object on the basis of the cache reads it live first, or names the resource
//! version or the UID that it has read.

mod echo;
mod state;

use capstan_api::meta::labels::CLUSTER_NAME;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Client, Resource, ResourceExt};
use prometheus_client::metrics::counter::Counter;
use serde::de::DeserializeOwned;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;

use crate::apply::owned::keep_own_fields;
use crate::error::{Doing as _, Error, Result, chain, forbidden};
use crate::metrics::{AnyObject, Metrics, Source as Counted};
use crate::scope::Scope;
use crate::settings::Settings;
use crate::signal::Signal;
use echo::{Absorb, Echoes, Heading, Wire};
pub use state::Key;
use state::State;

/// How long a read waits for the first list of its kind.
const FIRST_LIST: Duration = Duration::from_secs(30);

/// An object that can be cached: any type with metadata.
pub trait Cached: ResourceExt + Clone + Debug + DeserializeOwned + Send + Sync + 'static {}

impl<K> Cached for K where K: ResourceExt + Clone + Debug + DeserializeOwned + Send + Sync + 'static {}

/// The caches of a process. Cheap to clone; all clones share them.
#[derive(Clone)]
pub struct Caches {
    /// An empty stream, for caches that cache nothing.
    plain: Client,
    client: Client,
    scope: Scope,
    /// Whether every read asks the API server.
    is_live: bool,
    echoes: Echoes,
    engine: Engine,
    kinds: Arc<Mutex<HashMap<Kept, KindCache>>>,
}

/// The cache of one kind.
struct KindCache {
    name: String,
    /// A `Cache` of the type of the key.
    cache: Box<dyn Any + Send>,
    /// Nothing if the kind is watched in one namespace only: a namespace that the manager may not read does not keep it
    /// from its work in others.
    first: Option<tokio::sync::watch::Receiver<First>>,
    began: Instant,
}

/// A kind, and the namespace or the label if only a part of it is watched.
type Kept = (TypeId, Option<String>);

/// What controllers that run on these caches share. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Engine {
    pub(crate) metrics: Metrics,
    pub(crate) settings: Arc<Settings>,
}

impl Caches {
    /// Watches begin with the first use of a kind.
    pub fn new(client: Client) -> Self {
        let echoes = Echoes::default();
        let (client, plain) = (echoes.around(client.clone(), "capstan"), client);
        Self {
            plain,
            client,
            scope: Scope::default(),
            is_live: false,
            echoes,
            engine: Engine::default(),
            kinds: Arc::default(),
        }
    }

    /// Caches nothing: every read is a request, and there are no events. For callers that reconcile at times of their
    /// own choice.
    pub fn live(client: Client) -> Self {
        let (scope, echoes) = (Scope::default(), Echoes::default());
        Self {
            plain: client.clone(),
            client,
            scope,
            is_live: true,
            echoes,
            engine: Engine::default(),
            kinds: Arc::default(),
        }
    }

    /// Sets the metrics, and the settings of controllers. Existing watches are not shared with the result.
    #[must_use]
    pub fn with_engine(self, metrics: Metrics, settings: Settings) -> Self {
        let engine = Engine { metrics, settings: Arc::new(settings) };
        Self { engine, kinds: Arc::default(), ..self }
    }

    /// Limits watches to this scope. Existing watches are not shared with the result.
    #[must_use]
    pub fn within(self, scope: Scope) -> Self {
        Self { scope, kinds: Arc::default(), ..self }
    }

    /// Kinds whose first list is not complete although their watch began at least this long ago.
    pub fn unsynced(&self, since: Duration) -> Vec<String> {
        let kinds = lock(&self.kinds);
        let is_unsynced = |kind: &&KindCache| {
            kind.began.elapsed() >= since
                && kind.first.as_ref().is_some_and(|first| *first.borrow() != First::Complete)
        };
        let mut names: Vec<String> =
            kinds.values().filter(is_unsynced).map(|kind| kind.name.clone()).collect();
        names.sort();
        names
    }

    /// The client for reads. Objects written with it are in the cache at once.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A client with its own field manager in `managedFields`.
    pub fn client_as(&self, manager: &'static str) -> Client {
        self.echoes.around(self.plain.clone(), manager)
    }

    /// The same caches, for a controller with its own field manager.
    #[must_use]
    pub fn written_as(&self, manager: &'static str) -> Self {
        Self { client: self.client_as(manager), ..self.clone() }
    }

    /// The objects of a kind, within the scope of this manager.
    pub fn of<K>(&self) -> Cache<K>
    where
        K: Cached + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        self.kept(None, || (self.scope.api(&self.client), Selection::default()))
    }

    /// The objects of a cluster-scoped kind.
    pub fn of_cluster_scoped<K>(&self) -> Cache<K>
    where
        K: Cached + Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
    {
        self.kept(None, || (Api::all(self.client.clone()), Selection::default()))
    }

    /// The objects of a cluster-scoped kind that have a label.
    pub fn of_labelled<K>(&self, label: &'static str) -> Cache<K>
    where
        K: Cached + Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
    {
        let selection = Selection { namespace: None, label: Some(label) };
        self.kept(Some(label.to_owned()), || (Api::all(self.client.clone()), selection))
    }

    /// The objects of a kind in one namespace that have the label `cluster.x-k8s.io/cluster-name`. So no right to
    /// read such objects in all namespaces is needed.
    pub fn beside_clusters<K>(&self, namespace: &str) -> Cache<K>
    where
        K: Cached + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let one = Some(namespace.to_owned());
        let selection = Selection { namespace: one.clone(), label: Some(CLUSTER_NAME) };
        self.kept(one, || (Api::namespaced(self.client.clone(), namespace), selection))
    }

    fn kept<K>(&self, part: Option<String>, what: impl FnOnce() -> (Api<K>, Selection)) -> Cache<K>
    where
        K: Cached + Resource<DynamicType = ()>,
    {
        let key: Kept = (TypeId::of::<K>(), part);
        let mut kinds = lock(&self.kinds);
        if let Some(cache) = kinds.get(&key).and_then(|kind| kind.cache.downcast_ref::<Cache<K>>()) {
            return cache.clone();
        }
        let (api, selection) = what();
        let wire = Wire {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
        };
        let is_whole = selection.namespace.is_none();
        let cache = self.cache(api, selection, &K::kind(&()), wire);
        let first = match &cache.source {
            Source::Watched(shared, _) if is_whole => Some(shared.first.subscribe()),
            Source::Watched(..) | Source::Live(_) => None,
        };
        let name = K::kind(&()).into_owned();
        kinds.insert(key, KindCache { name, cache: Box::new(cache.clone()), first, began: Instant::now() });
        cache
    }

    /// Objects of a kind that is known by name only. The watch ends with the last clone of the cache.
    pub(crate) fn of_external(&self, scope: &Scope, resource: &ApiResource) -> Cache<DynamicObject> {
        let wire = Wire {
            group: resource.group.clone(),
            version: resource.version.clone(),
            plural: resource.plural.clone(),
        };
        let api = scope.api_of(&self.client, resource);
        self.cache(api, Selection::default(), &resource.kind, wire)
    }

    fn cache<K: Cached>(&self, api: Api<K>, selection: Selection, kind: &str, wire: Wire) -> Cache<K> {
        if self.is_live {
            let engine = self.engine.clone();
            return Cache { source: Source::Live(selection), kind: kind.into(), api, engine };
        }
        let failures = self.engine.metrics.watch_failures(kind);
        let mut cache = Cache::watched(api, selection.config(), kind, selection, failures);
        cache.engine = self.engine.clone();
        if let Source::Watched(shared, _) = &cache.source {
            self.echoes.register(wire, shared);
            self.engine.metrics.expose_cache(shared);
        }
        cache
    }
}

/// Which objects of a kind are kept.
#[derive(Clone, Debug, Default)]
struct Selection {
    namespace: Option<String>,
    /// A label they must have, whatever its value.
    label: Option<&'static str>,
}

impl Selection {
    fn config(&self) -> watcher::Config {
        match self.label {
            Some(label) => watcher::Config::default().labels(label),
            None => watcher::Config::default(),
        }
    }

    fn listed(&self) -> ListParams {
        match self.label {
            Some(label) => ListParams::default().labels(label),
            None => ListParams::default(),
        }
    }

    fn has(&self, object: &impl ResourceExt) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| object.namespace().as_ref() == Some(namespace))
            && self.label.is_none_or(|label| object.labels().contains_key(label))
    }
}

/// The objects of one kind. Cheap to clone. The watch ends with the last clone.
pub struct Cache<K> {
    source: Source<K>,
    kind: Arc<str>,
    api: Api<K>,
    engine: Engine,
}

enum Source<K> {
    Watched(Arc<Shared<K>>, Arc<Watch>),
    Live(Selection),
}

impl<K: Clone> Clone for Cache<K> {
    fn clone(&self) -> Self {
        let source = match &self.source {
            Source::Watched(shared, watch) => Source::Watched(Arc::clone(shared), Arc::clone(watch)),
            Source::Live(selection) => Source::Live(selection.clone()),
        };
        Self { source, kind: Arc::clone(&self.kind), api: self.api.clone(), engine: self.engine.clone() }
    }
}

struct Shared<K> {
    kind: String,
    selection: Selection,
    state: RwLock<State<K>>,
    changed: Signal<Key>,
    /// State of the first list.
    first: tokio::sync::watch::Sender<First>,
    /// The last logged error of the watch.
    complaint: Mutex<Option<String>>,
    /// Number of failures of the watch.
    failures: Counter,
    /// The scope of the controller of this process that reconciles the kind, if there is one.
    looked_after: OnceLock<Scope>,
}

/// State of the first list of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
enum First {
    /// The first list is under way.
    Awaited,
    /// The API server rejects the list, with the reason for users. The list is retried.
    Forbidden(String),
    /// The first list is complete.
    Complete,
}

/// Ends with the last clone.
struct Watch(AbortHandle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<K: Cached> Cache<K> {
    /// Starts a watch. `kind` is the name in messages.
    pub fn watching(api: Api<K>, config: watcher::Config, kind: &str) -> Self {
        Self::watched(api, config, kind, Selection::default(), Counter::default())
    }

    fn watched(
        api: Api<K>,
        config: watcher::Config,
        kind: &str,
        selection: Selection,
        failures: Counter,
    ) -> Self {
        let shared = Arc::new(Shared {
            kind: kind.to_owned(),
            selection,
            state: RwLock::default(),
            changed: Signal::default(),
            first: tokio::sync::watch::Sender::new(First::Awaited),
            complaint: Mutex::default(),
            failures,
            looked_after: OnceLock::new(),
        });
        let watching = tokio::spawn(follow(Arc::clone(&shared), api.clone(), config));
        let source = Source::Watched(shared, Arc::new(Watch(watching.abort_handle())));
        Self { source, kind: kind.into(), api, engine: Engine::default() }
    }

    /// The metrics and settings of a controller that runs on this cache.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Records that a controller of this process reconciles these objects.
    pub(crate) fn is_looked_after(&self, scope: &Scope) {
        if let Source::Watched(shared, _) = &self.source {
            // An error means that another controller has set it already, to the same value.
            _ = shared.looked_after.set(scope.clone());
        }
    }

    /// All objects.
    ///
    /// # Errors
    /// If the first list is not complete.
    pub async fn all(&self) -> Result<Vec<Arc<K>>> {
        match &self.source {
            Source::Watched(shared, _) => Ok(shared.known().await?.all()),
            Source::Live(selection) => self.list(&self.api, selection.listed()).await,
        }
    }

    /// All objects, without waiting: `None` before the first list is complete, which it never is for a kind that the
    /// API server does not serve, and for caches that cache nothing.
    pub fn all_now(&self) -> Option<Vec<Arc<K>>> {
        match &self.source {
            Source::Watched(shared, _) if *shared.first.borrow() == First::Complete => {
                Some(shared.read().all())
            }
            Source::Watched(..) | Source::Live(_) => None,
        }
    }

    /// The number of objects, without waiting: `None` before the first list is complete, and for caches that cache nothing.
    pub fn count_now(&self) -> Option<usize> {
        match &self.source {
            Source::Watched(shared, _) if *shared.first.borrow() == First::Complete => {
                Some(shared.read().count())
            }
            Source::Watched(..) | Source::Live(_) => None,
        }
    }

    /// All objects with an owner reference to this UID.
    ///
    /// # Errors
    /// If the first list is not complete.
    pub async fn of_owner(&self, uid: &str) -> Result<Vec<Arc<K>>> {
        match &self.source {
            Source::Watched(shared, _) => Ok(shared.known().await?.of_owner(uid)),
            Source::Live(_) => {
                let mut all = self.all().await?;
                all.retain(|object| object.owner_references().iter().any(|owner| owner.uid == uid));
                Ok(all)
            }
        }
    }

    async fn list(&self, api: &Api<K>, what: ListParams) -> Result<Vec<Arc<K>>> {
        let list = api.list(&what).await.doing(|| format!("cannot list objects of kind {}", self.kind))?;
        Ok(list.items.into_iter().map(Arc::new).collect())
    }

    /// What is in memory at this moment; nothing before the first list is complete.
    pub(crate) fn now(&self, key: &Key) -> Option<Arc<K>> {
        match &self.source {
            Source::Watched(shared, _) => shared.read().get(key),
            Source::Live(_) => None,
        }
    }

    /// Keys of all objects, and then of those that are created, changed or deleted.
    pub fn keys(&self) -> BoxStream<'static, Key> {
        match &self.source {
            Source::Watched(shared, _) => {
                let known = Arc::clone(shared);
                shared.changed.listen_from(move || known.read().keys()).boxed()
            }
            Source::Live(_) => futures::stream::pending().boxed(),
        }
    }

    /// All objects, and then those that are created, deleted or differ in `facts`. Other changes, such as a status
    /// that changes every second, are not sent. For a changed object both the previous and the current state are
    /// sent, because a previous owner may have to know.
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
            let affected = [before, now].into_iter().flatten().filter(move |_| !is_same);
            futures::stream::iter(affected.collect::<Vec<_>>())
        };
        self.keys().flat_map(news)
    }
}

impl<K> Cache<K>
where
    K: Cached + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    /// The object of a name. If it is not in the cache, it may be too new, and is read from the API server.
    ///
    /// # Errors
    /// If the first list is not complete, or the API server does not respond.
    pub async fn get(&self, namespace: &str, name: &str) -> Result<Option<Arc<K>>> {
        if let Source::Watched(shared, _) = &self.source
            && let Some(found) = shared.known().await?.get(&Key::new(namespace, name))
        {
            return Ok(Some(found));
        }
        let found = self.namespaced(namespace).get_opt(name).await;
        let found = found.doing(|| format!("cannot read {} {namespace}/{name}", self.kind))?;
        Ok(found.map(Arc::new))
    }

    /// The object of a name, if it is in the cache. For objects whose creation triggers the caller again.
    ///
    /// # Errors
    /// If the first list is not complete.
    pub async fn peek(&self, namespace: &str, name: &str) -> Result<Option<Arc<K>>> {
        match &self.source {
            Source::Watched(shared, _) => Ok(shared.known().await?.get(&Key::new(namespace, name))),
            Source::Live(_) => self.get(namespace, name).await,
        }
    }

    /// All objects of a namespace, by name.
    ///
    /// # Errors
    /// If the first list is not complete.
    pub async fn in_namespace(&self, namespace: &str) -> Result<Vec<Arc<K>>> {
        match &self.source {
            Source::Watched(shared, _) => Ok(shared.known().await?.in_namespace(namespace)),
            Source::Live(selection) => self.list(&self.namespaced(namespace), selection.listed()).await,
        }
    }

    /// All objects with the label `cluster.x-k8s.io/cluster-name` of a Cluster, by name.
    ///
    /// # Errors
    /// If the first list is not complete.
    pub async fn of_cluster(&self, namespace: &str, cluster: &str) -> Result<Vec<Arc<K>>> {
        match &self.source {
            Source::Watched(shared, _) => Ok(shared.known().await?.of_cluster(namespace, cluster)),
            Source::Live(_) => {
                let of_cluster = ListParams::default().labels(&format!("{CLUSTER_NAME}={cluster}"));
                self.list(&self.namespaced(namespace), of_cluster).await
            }
        }
    }

    fn namespaced(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.api.clone().into_client(), namespace)
    }
}

impl<K> Cache<K>
where
    K: Cached + Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
{
    /// The object of a name, if it is in the cache. For objects whose creation triggers the caller again.
    ///
    /// # Errors
    /// If the first list is not complete.
    pub async fn peek_named(&self, name: &str) -> Result<Option<Arc<K>>> {
        match &self.source {
            Source::Watched(shared, _) => Ok(shared.known().await?.get(&Key::new("", name))),
            Source::Live(_) => {
                let found = self.api.get_opt(name).await;
                Ok(found.doing(|| format!("cannot read {} {name}", self.kind))?.map(Arc::new))
            }
        }
    }
}

impl<K: Cached> Absorb for Shared<K> {
    fn lists(&self) -> u64 {
        self.read().lists()
    }

    fn absorb(&self, answer: &[u8], lists: u64) {
        let heading = serde_json::from_slice::<Heading>(answer);
        if !heading.is_ok_and(|heading| heading.kind == self.kind) {
            return;
        }
        // An object that cannot be parsed also comes by the watch, which logs the error.
        let Ok(object) = serde_json::from_slice::<K>(answer) else { return };
        if self.selection.has(&object)
            && let Some(key) = self.write().absorb(lean(object), lists)
        {
            self.changed.send(&key);
        }
    }
}

impl<K> Shared<K> {
    /// The state, once the first list is complete.
    async fn known(&self) -> Result<RwLockReadGuard<'_, State<K>>> {
        let mut first = self.first.subscribe();
        let decided = first.wait_for(|first| *first != First::Awaited);
        let decided = tokio::time::timeout(FIRST_LIST, decided).await;
        let first =
            decided.ok().and_then(std::result::Result::ok).map_or(First::Awaited, |first| first.clone());
        let doing = format!("cannot list objects of kind {}", self.kind);
        match first {
            First::Complete => Ok(self.read()),
            First::Forbidden(message) => Err(Error::Forbidden { doing, message }),
            First::Awaited => {
                let why = lock(&self.complaint).clone();
                Err(Error::transient(doing, why.unwrap_or_else(|| format!("no answer after {FIRST_LIST:?}"))))
            }
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State<K>> {
        // One task changes the state, each change as a whole: a panic elsewhere leaves it consistent.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<K>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Cached> Counted for Shared<K> {
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

/// Keeps the state in sync with the API server. Does not return.
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
            Ok(Event::Apply(object)) => shared.write().bring(lean(object)).into_iter().collect(),
            Ok(Event::Delete(object)) => shared.write().gone(&object).into_iter().collect(),
            Err(error) => {
                shared.failures.inc();
                complain(&shared, &error);
                continue;
            }
        };
        lock(&shared.complaint).take();
        shared.first.send_if_modified(|first| {
            let is_news = *first != First::Complete;
            *first = First::Complete;
            is_news
        });
        for key in changed {
            shared.changed.send(&key);
        }
    }
}

/// Removes the parts that no controller reads, which are often half of an object.
fn lean<K: ResourceExt>(mut object: K) -> Arc<K> {
    keep_own_fields(object.managed_fields_mut());
    Arc::new(object)
}

/// Logs why a watch fails, once and not for every attempt: a missing right may last for ever.
fn complain<K>(shared: &Shared<K>, error: &watcher::Error) {
    let message = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status)
            if status.code == 403 =>
        {
            let message = forbidden(&status.message);
            // A complete list stays in the cache. Only readers that still wait for the first list get the error.
            shared.first.send_if_modified(|first| {
                let is_news = *first != First::Complete;
                if is_news {
                    *first = First::Forbidden(message.clone());
                }
                is_news
            });
            message
        }
        other => chain(other),
    };
    let mut complaint = lock(&shared.complaint);
    if complaint.as_ref() != Some(&message) {
        tracing::warn!(kind = shared.kind, error = message, "watch failed; trying again");
        *complaint = Some(message);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves no change half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
