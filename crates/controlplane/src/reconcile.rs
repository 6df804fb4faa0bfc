//! One reconcile: fetch, pause, finalizer, phases, and one status at the end.

use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::Cluster;
use capstan_api::meta::labels;
use capstan_artifacts::Software;
use capstan_controller::error::{Doing as _, Result};
use capstan_controller::etcd::Etcd;
use capstan_controller::external::Externals;
use capstan_controller::patch::Patcher;
use capstan_controller::plane::PlaneName;
use capstan_controller::{Caches, Next, Reconciler, finalizers, names, owners, pause};
use capstan_planner::ending::Ending;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::Api;
use std::sync::Arc;

use crate::doubt::Doubts;
use crate::healing::contact::Contacts;
use crate::names::FINALIZER;
use crate::planner::Spare;
use crate::round::{LONGEST_WAIT, Round};
use crate::scope::Scope;
use crate::workload::Workload;

/// The controller of CapstanControlPlanes, and planner of their clusters' machines.
pub struct ControlPlane<W> {
    caches: Caches,
    /// The same without memory.
    live: Caches,
    doubts: Doubts,
    externals: Externals,
    workload: W,
    tools: Tools,
    ambient: Ambient,
    plane: PlaneName,
    contacts: Contacts,
}

/// Time and chance; a simulation has its own.
#[derive(Clone)]
pub struct Ambient {
    /// Tells the time.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Gives what keeps the names of new machines apart.
    pub suffix: Arc<dyn Fn() -> String + Send + Sync>,
}

impl Default for Ambient {
    fn default() -> Self {
        Self { clock: Arc::new(Timestamp::now), suffix: Arc::new(names::random_suffix) }
    }
}

/// What the controller reaches beside objects.
#[derive(Clone)]
pub struct Tools {
    /// The software that machines get.
    pub software: Software,
    /// What machines get that need none.
    pub spare: Option<Spare>,
    /// How the etcd of workload clusters is asked.
    pub etcd: Arc<dyn Etcd>,
}

impl<W: Workload> ControlPlane<W> {
    /// Asks `workload` whether clusters answer, usually [`Remotes`](capstan_controller::remote::Remotes).
    pub fn new(caches: Caches, externals: Externals, workload: W, tools: Tools) -> Self {
        let plane = PlaneName::of(caches.client().clone());
        let (ambient, contacts) = (Ambient::default(), Contacts::default());
        let (live, doubts) = (Caches::live(caches.client().clone()), Doubts::default());
        Self { caches, live, doubts, externals, workload, tools, ambient, plane, contacts }
    }

    /// The same with another time and chance.
    #[must_use]
    pub fn with_ambient(self, ambient: Ambient) -> Self {
        Self { ambient, ..self }
    }

    async fn cluster(
        caches: &Caches,
        object: &CapstanControlPlane,
        namespace: &str,
    ) -> Result<Option<Arc<Cluster>>> {
        let owner = owners::of_kind(&object.metadata, "Cluster", "cluster.x-k8s.io").map(|owner| &owner.name);
        let Some(name) = owner.or_else(|| object.labels().get(labels::CLUSTER_NAME)) else { return Ok(None) };
        caches.of::<Cluster>().get(namespace, name).await
    }

    async fn look(&self, caches: &Caches, object: Arc<CapstanControlPlane>) -> Result<Next> {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let api: Api<CapstanControlPlane> = Api::namespaced(caches.client().clone(), &namespace);
        // Read anew: what is decided from it must not be older than what the last reconcile wrote.
        let found = caches.of::<CapstanControlPlane>().get(&namespace, &name).await?;
        let Some(object) = found else { return Ok(Next::Changed) };
        let cluster = Self::cluster(caches, &object, &namespace).await?;
        let now = (self.ambient.clock)();
        if !pause::allows(&api, object.as_ref(), cluster.as_deref(), now).await? {
            return Ok(Next::Changed);
        }
        let Some(cluster) = cluster else {
            if object.metadata.deletion_timestamp.is_some() {
                // What is left goes with its owner.
                return release(&api, &object).await;
            }
            return Ok(Next::After(LONGEST_WAIT));
        };
        if finalizers::ensure(&api, object.as_ref(), FINALIZER).await? {
            return Ok(Next::Changed);
        }
        let scope = Scope {
            caches,
            externals: &self.externals,
            owner: &object,
            cluster: &cluster,
            namespace: &namespace,
            plane: self.plane.get().await?,
            now,
            contacts: &self.contacts,
            suffix: self.ambient.suffix.as_ref(),
        };
        let mut round = Round::new(&scope);
        let result = match object.metadata.deletion_timestamp.is_some() {
            false => Box::pin(round.phases(&self.workload, &self.tools)).await,
            true => Box::pin(round.end()).await,
        };
        let done = round.ending == Some(Ending::Done);
        round.finish(&api, result).await?;
        if done { release(&api, &object).await } else { Ok(round.next) }
    }
}

impl<W: Workload> Reconciler for ControlPlane<W> {
    type Object = CapstanControlPlane;

    fn name(&self) -> &'static str {
        "capstancontrolplane"
    }

    async fn reconcile(&self, object: Arc<CapstanControlPlane>) -> Result<Next> {
        let uid = object.uid().unwrap_or_default();
        let caches = if self.doubts.begin(&uid) { &self.live } else { &self.caches };
        let ended = self.look(caches, object).await;
        self.doubts.end(&uid, &ended);
        ended
    }
}

async fn release(api: &Api<CapstanControlPlane>, object: &CapstanControlPlane) -> Result<Next> {
    let latest =
        api.get_opt(&object.name_any()).await.doing(|| "cannot read a CapstanControlPlane".to_owned())?;
    if let Some(latest) = latest {
        let mut released = latest.clone();
        finalizers::remove(&mut released.metadata, FINALIZER);
        Patcher::new(api.clone(), &latest).finish(&released, &[]).await?;
    }
    Ok(Next::Changed)
}
