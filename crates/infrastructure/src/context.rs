//! The inputs that all infrastructure controllers share, and the function that runs all of them.

use capstan_api::infrastructure::Host;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt as _};
use serde_json::{Value, json};
use std::sync::Arc;

use capstan_controller::cache::Cached;
use capstan_controller::error::Doing as _;
use capstan_controller::events::Events;
use capstan_controller::external::Externals;
use capstan_controller::{Caches, Result, Scope};

use crate::driver::Drivers;
use crate::news::News;
use crate::provisioner::Provisioner;
use crate::{host, hostcluster, hostmachine, hostmachinetemplate, hostpool, hostregistration};

/// Default address of simulated clusters.
const LOOPBACK: &str = "127.0.0.1";

/// Returns the current time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What all controllers of the infrastructure provider share. Cheap to clone.
#[derive(Clone)]
pub struct Infrastructure {
    /// Client for the management cluster.
    pub client: Client,
    /// Cached objects of the management cluster.
    pub caches: Caches,
    /// Drivers that reach hosts.
    pub drivers: Drivers,
    /// The objects that this manager is responsible for.
    pub scope: Scope,
    /// The address at which simulated clusters are reached.
    pub(crate) simulated_at: String,
    /// Objects of other providers, found by the contract.
    pub(crate) externals: Externals,
    /// Creates machines for pools, if configured.
    pub(crate) provisioner: Option<Arc<dyn Provisioner>>,
    clock: Clock,
    /// Field manager and source of Events.
    manager: &'static str,
}

impl Infrastructure {
    /// Controllers for the management cluster of `client`, and the hosts that `drivers` reach.
    pub fn new(client: Client, drivers: Drivers) -> Self {
        let caches = Caches::new(client);
        Self {
            externals: Externals::in_memory(&caches),
            client: caches.client().clone(),
            caches,
            drivers,
            scope: Scope::default(),
            simulated_at: LOOPBACK.to_owned(),
            provisioner: None,
            clock: Arc::new(Timestamp::now),
            manager: "capstan",
        }
    }

    /// Sets the provisioner that creates machines for pools.
    pub fn with_provisioner(mut self, provisioner: Arc<dyn Provisioner>) -> Self {
        self.provisioner = Some(provisioner);
        self
    }

    /// Limits the controllers to this scope.
    pub fn within(mut self, scope: Scope) -> Self {
        self.externals = self.externals.within(scope.clone());
        self.caches = self.caches.within(scope.clone());
        self.scope = scope;
        self
    }

    /// Sets the address of simulated clusters, which is loopback by default.
    pub fn with_simulated_at(mut self, host: String) -> Self {
        self.simulated_at = host;
        self
    }

    /// Shares cached objects with other controllers.
    pub fn with_caches(mut self, caches: Caches) -> Self {
        self.client = caches.client().clone();
        self.externals = Externals::in_memory(&caches).within(self.scope.clone());
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

    /// Publishes an Event for each of the news.
    pub(crate) async fn report<K>(&self, object: &K, news: impl IntoIterator<Item = News>)
    where
        K: Resource<DynamicType = ()>,
    {
        let events = Events::new(self.client.clone(), self.manager);
        for News { tone, reason, message } in news {
            events.publish(object, tone, reason, &message, self.now()).await;
        }
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

    /// One object, from the cache.
    pub(crate) async fn remembered<K>(&self, namespace: &str, name: &str) -> Result<Option<Arc<K>>>
    where
        K: Cached + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        self.caches.of::<K>().get(namespace, name).await
    }

    /// The hosts of a namespace that are in the scope of this manager and may be claimed. A live read.
    pub(crate) async fn hosts(&self, namespace: &str) -> Result<Vec<Arc<Host>>> {
        let list = self.api::<Host>(namespace).list(&self.scope.listed()).await;
        let list = list.doing(|| format!("cannot list Hosts in {namespace}"))?;
        Ok(list.items.into_iter().map(Arc::new).collect())
    }

    /// The same hosts, from the cache. They are not copied, because there may be thousands.
    pub(crate) async fn remembered_hosts(&self, namespace: &str) -> Result<Vec<Arc<Host>>> {
        let mut all = self.caches.of::<Host>().in_namespace(namespace).await?;
        all.retain(|host| self.scope.is_own(host.as_ref()));
        Ok(all)
    }

    /// One of these hosts, from the cache.
    pub(crate) async fn remembered_host(&self, namespace: &str, name: &str) -> Result<Option<Arc<Host>>> {
        let found = self.caches.of::<Host>().peek(namespace, name).await?;
        Ok(found.filter(|host| self.scope.is_own(host.as_ref())))
    }

    /// Changes the spec of a host by compare and swap: fails if the host has changed since it was read.
    pub(crate) async fn swap_host(&self, host: &Host, spec: &Value, doing: &str) -> Result<Host> {
        let name = host.name_any();
        let patch = json!({"metadata": {"resourceVersion": host.resource_version()}, "spec": spec});
        self.api(&host.namespace().unwrap_or_default())
            .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .doing(|| format!("cannot {doing} Host {name}"))
    }
}

/// All controllers of the infrastructure provider, each as a future that runs until `stop` completes.
pub fn controllers<S>(infrastructure: &Infrastructure, stop: &S) -> Vec<BoxFuture<'static, ()>>
where
    S: Future<Output = ()> + Clone + Send + Sync + 'static,
{
    vec![
        Box::pin(hostpool::run(infrastructure.written_as("capstan-hostpool"), stop.clone())),
        Box::pin(hostregistration::run(infrastructure.written_as("capstan-hostregistration"), stop.clone())),
        Box::pin(host::run(infrastructure.written_as("capstan-host"), stop.clone())),
        Box::pin(hostcluster::run(infrastructure.written_as("capstan-hostcluster"), stop.clone())),
        Box::pin(hostmachine::run(infrastructure.written_as("capstan-hostmachine"), stop.clone())),
        Box::pin(hostmachinetemplate::run(
            infrastructure.written_as("capstan-hostmachinetemplate"),
            stop.clone(),
        )),
    ]
}
