//! What every controller of core is given: clients and a clock.

use capstan_controller::events::{Events, Tone};
use capstan_controller::external::Externals;
use capstan_controller::metrics::Metrics;
use capstan_controller::remote::Remotes;
use capstan_controller::settings::Settings;
use capstan_controller::{Caches, Scope};
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use kube::api::Api;
use kube::{Client, Resource};
use std::sync::Arc;

use crate::node_sync::NodeSync;
use crate::runtime::Extensions;

/// Says what time it is. Tests turn it by hand.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What every controller of core is given. Cheap to clone.
#[derive(Clone)]
pub struct Core {
    /// The management cluster.
    pub client: Client,
    /// Its objects, in memory.
    pub caches: Caches,
    /// Providers' objects, by the contract.
    pub externals: Externals,
    /// Workload clusters.
    pub remotes: Remotes,
    /// Runtime extensions.
    pub extensions: Extensions,
    /// What is looked after.
    pub scope: Scope,
    /// What Nodes carry of their Machines beside what they always do.
    pub node_sync: NodeSync,
    clock: Clock,
    /// Under which name it writes and tells.
    manager: &'static str,
}

impl Core {
    /// Controllers for the management cluster that `client` leads to.
    pub fn new(client: Client) -> Self {
        let caches = Caches::new(client);
        let client = caches.client().clone();
        Self {
            externals: Externals::in_memory(&caches),
            remotes: Remotes::in_memory(&caches),
            extensions: Extensions::new(client.clone()),
            scope: Scope::default(),
            node_sync: NodeSync::default(),
            clock: Arc::new(Timestamp::now),
            manager: "capstan",
            client,
            caches,
        }
    }

    /// The same, looking after no more than this.
    pub fn within(mut self, scope: Scope) -> Self {
        let caches = self.caches.clone().within(scope.clone());
        self.scope = scope;
        self.reading(caches)
    }

    /// The same, counted in these metrics, with controllers that run as `settings` say.
    pub fn with_engine(self, metrics: Metrics, settings: Settings) -> Self {
        let caches = self.caches.clone().with_engine(metrics, settings);
        self.reading(caches)
    }

    fn reading(mut self, caches: Caches) -> Self {
        self.externals = Externals::in_memory(&caches).within(self.scope.clone());
        self.remotes = Remotes::in_memory(&caches);
        self.caches = caches;
        self
    }

    /// The same with another clock.
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The same for a controller that writes under a name of its own.
    #[must_use]
    pub fn written_as(&self, manager: &'static str) -> Self {
        let caches = self.caches.written_as(manager);
        let client = caches.client().clone();
        let externals = self.externals.written_with(client.clone());
        Self { client, caches, externals, manager, ..self.clone() }
    }

    /// Tells what has happened to an object, for people who describe it.
    pub async fn tell<K>(&self, object: &K, tone: Tone, reason: &str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        let events = Events::new(self.client.clone(), self.manager);
        events.tell(object, tone, reason, message, self.now()).await;
    }

    /// What time it is.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Access to one kind in one namespace.
    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Access to one kind as far as it is looked at: in all namespaces, or in one.
    pub fn all<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        self.scope.api(&self.client)
    }
}

/// All controllers of core, each as a future that runs until `stop` is done.
pub fn controllers<S>(core: &Core, stop: &S) -> Vec<BoxFuture<'static, ()>>
where
    S: Future<Output = ()> + Clone + Send + Sync + 'static,
{
    vec![
        Box::pin(crate::cluster::run(core.written_as("capstan-cluster"), stop.clone())),
        Box::pin(crate::extensionconfig::run(core.written_as("capstan-extensionconfig"), stop.clone())),
        Box::pin(crate::machine::run(core.written_as("capstan-machine"), stop.clone())),
        Box::pin(crate::machineset::run(core.written_as("capstan-machineset"), stop.clone())),
        Box::pin(crate::machinedeployment::run(core.written_as("capstan-machinedeployment"), stop.clone())),
        Box::pin(crate::machinehealthcheck::run(core.written_as("capstan-machinehealthcheck"), stop.clone())),
    ]
}
