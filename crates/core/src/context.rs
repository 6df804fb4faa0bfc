//! What every controller of core is given: clients and a clock.

use capstan_controller::events::{Events, Tone, WrittenEvents};
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

/// Returns the current time. Tests set it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What all controllers of core share. Cheap to clone.
#[derive(Clone)]
pub struct Core {
    /// Client for the management cluster.
    pub client: Client,
    /// Cached objects of the management cluster.
    pub caches: Caches,
    /// Objects of providers, read by the contract.
    pub externals: Externals,
    /// Connections to workload clusters.
    pub remotes: Remotes,
    /// Runtime extensions.
    pub extensions: Extensions,
    /// The objects that this manager is responsible for.
    pub scope: Scope,
    /// Additional labels and annotations that are copied from Machines to Nodes.
    pub node_sync: NodeSync,
    clock: Clock,
    events: WrittenEvents,
    /// Field manager, and reporter of Events.
    manager: &'static str,
}

impl Core {
    /// Controllers for the management cluster of `client`.
    pub fn new(client: Client) -> Self {
        let caches = Caches::new(client);
        let client = caches.client().clone();
        Self {
            externals: Externals::in_memory(&caches),
            remotes: Remotes::in_memory(&caches),
            extensions: Extensions::new(caches.clone()),
            scope: Scope::default(),
            node_sync: NodeSync::default(),
            clock: Arc::new(Timestamp::now),
            events: WrittenEvents::default(),
            manager: "capstan",
            client,
            caches,
        }
    }

    /// Limits the controllers to this scope.
    pub fn within(mut self, scope: Scope) -> Self {
        let caches = self.caches.clone().within(scope.clone());
        self.scope = scope;
        self.reading(caches)
    }

    /// Sets the metrics, and the settings of controllers.
    pub fn with_engine(self, metrics: Metrics, settings: Settings) -> Self {
        let caches = self.caches.clone().with_engine(metrics, settings);
        self.reading(caches)
    }

    fn reading(mut self, caches: Caches) -> Self {
        self.externals = Externals::in_memory(&caches).within(self.scope.clone());
        self.remotes = Remotes::in_memory(&caches);
        self.extensions = self.extensions.reading(caches.clone());
        self.caches = caches;
        self
    }

    /// Sets the clock.
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// A copy for a controller with its own field manager.
    #[must_use]
    pub fn written_as(&self, manager: &'static str) -> Self {
        let caches = self.caches.written_as(manager);
        let client = caches.client().clone();
        let externals = self.externals.written_with(client.clone());
        Self { client, caches, externals, manager, ..self.clone() }
    }

    /// Writes an event about an object.
    pub async fn publish_event<K>(&self, object: &K, tone: Tone, reason: &str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        let events = Events::new(self.client.clone(), self.manager).remembering(&self.events);
        events.publish(object, tone, reason, message, self.now()).await;
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// An API client for a kind in one namespace.
    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// An API client for a kind within the scope: all namespaces, or one.
    pub fn all<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        self.scope.api(&self.client)
    }
}

/// All controllers of core, each as a future that runs until `stop` completes.
pub fn controllers<S>(core: &Core, stop: &S) -> Vec<BoxFuture<'static, ()>>
where
    S: Future<Output = ()> + Clone + Send + Sync + 'static,
{
    vec![
        Box::pin(crate::cluster::run(core.written_as("capstan-cluster"), stop.clone())),
        Box::pin(crate::clusterclass::run(core.written_as("capstan-clusterclass"), stop.clone())),
        Box::pin(crate::clusterresourceset::run(core.written_as("capstan-clusterresourceset"), stop.clone())),
        Box::pin(crate::clusterresourcesetbinding::run(
            core.written_as("capstan-clusterresourcesetbinding"),
            stop.clone(),
        )),
        Box::pin(crate::extensionconfig::run(core.written_as("capstan-extensionconfig"), stop.clone())),
        Box::pin(crate::machine::run(core.written_as("capstan-machine"), stop.clone())),
        Box::pin(crate::machineset::run(core.written_as("capstan-machineset"), stop.clone())),
        Box::pin(crate::machinedeployment::run(core.written_as("capstan-machinedeployment"), stop.clone())),
        Box::pin(crate::machinehealthcheck::run(core.written_as("capstan-machinehealthcheck"), stop.clone())),
        Box::pin(crate::machinepool::run(core.written_as("capstan-machinepool"), stop.clone())),
        Box::pin(crate::topology::run(core.written_as("capstan-clustertopology"), stop.clone())),
        Box::pin(crate::topologyworkers::run_machine_deployments(
            core.written_as("capstan-topology-machinedeployment"),
            stop.clone(),
        )),
        Box::pin(crate::topologyworkers::run_machine_sets(
            core.written_as("capstan-topology-machineset"),
            stop.clone(),
        )),
    ]
}
