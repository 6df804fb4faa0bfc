//! The control plane provider: certificates, the kubeconfig, the control plane's machines, and the plan of every
//! machine of the cluster.
//!
//! **Reads** the CapstanControlPlane and its Cluster; of that Cluster all Machines, CapstanConfigs, MachineReports,
//! MachineDeployments, Leases of agents and Secrets; the Hosts of its Machines; infrastructure templates; Nodes, volumes
//! and etcd of the workload cluster. **Alone writes** annotations and status of the CapstanControlPlane; the Machines,
//! CapstanConfigs and infrastructure machines of the control plane; the Secrets with certificates, keys, the kubeconfig
//! and plans; of every machine the record of healing and the conditions `HealedInPlace` and `Planned`; and labels and
//! taints of Nodes because of their Hosts.
//!
//! The phases, in order:
//!
//! | phase | folder | what it does |
//! |---|---|---|
//! | observe | `observe` | reads all of that and computes the facts |
//! | certificates | `certificates`, `kubeconfig` | creates certificates and keys, once, and the kubeconfig |
//! | begin | `act` | records that the cluster is initialized |
//! | etcd | `etcd` | reads the members; removes machines that are being deleted |
//! | heal | `healing` | starts the next healing step of each unhealthy machine |
//! | machines | `machines` | creates, changes or deletes one machine |
//! | elect, plan | `act`, `plans` | records which machine initializes the cluster; writes plans and opens their gates |
//! | sync | `machines` | updates Machines with changes that cost nothing, and their conditions |
//! | status | `status`, `act` | one status and condition set from the observations |
//!
//! In every folder `observe` reads, `decide` is pure, `act` writes and `status` computes conditions; a file is absent
//! if it would be empty. Decisions that need no API object are in `capstan-planner`. Besides the phases: `triggers`
//! (the events that trigger a reconcile), `scope` (the objects of one reconcile, and access to more), `doubt` (when the
//! cache is not used), `workload` (the workload cluster), `foresee` (the effect of a change, for `capstan plan`: the
//! same decisions on predicted facts).
//!
//! This crate must not contain what a distribution needs (`capstan-distro`), how a plan is written (`capstan-plan`), or
//! any other provider. Objects of providers are created through the contract.
//!
//! Nothing essential is only in status. Which machine initializes the cluster, that it is initialized, and which
//! machine is being created are annotations that are written by compare and swap.

mod act;
#[cfg(feature = "bench")]
pub mod bench;
mod certificates;
mod doubt;
mod etcd;
pub mod foresee;
mod healing;
mod kubeconfig;
mod machines;
mod marks;
mod names;
mod observe;
mod plans;
mod scope;
mod status;
mod triggers;
mod workload;

use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::Cluster;
use capstan_api::meta::labels;
use capstan_artifacts::Software;
use capstan_controller::error::Result;
use capstan_controller::etcd::Etcd;
use capstan_controller::external::Externals;
use capstan_controller::plane::PlaneName;
use capstan_controller::remote::Remotes;
use capstan_controller::{Caches, Next, Reconciler, finalizers, owners, pause, run};
use capstan_planner::ending::Ending;
use capstan_planner::machines::MachineStep;
use capstan_planner::wait;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::Api;
use std::future::Future;
use std::sync::Arc;

use doubt::Doubts;
use healing::contact::Contacts;
use names::FINALIZER;
use observe::{LONGEST_WAIT, Observed};
use scope::Scope;

pub use etcd::EtcdClient;
pub use marks::Marks;
pub use plans::Spare;
pub use workload::{NodeView, NodesByName, Workload};

/// Runs the controller until `stop` completes, for the objects in `scope`. `caches`, `externals` and `remotes` may be
/// shared with other controllers.
pub async fn run(
    caches: Caches,
    externals: Externals,
    remotes: Remotes,
    tools: Tools,
    scope: capstan_controller::Scope,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let woken = triggers::control_planes(&caches, &externals, &scope, &remotes);
    let (objects, caches) = (caches.of(), caches.written_as("capstan-controlplane"));
    let externals = externals.written_with(caches.client().clone());
    run::run(ControlPlane::new(caches, externals, remotes, tools), objects, scope, woken, stop).await;
}

/// The controller of CapstanControlPlanes, which also plans the machines of their clusters.
pub struct ControlPlane<W> {
    caches: Caches,
    /// The same controller without a cache.
    live: Caches,
    doubts: Doubts,
    externals: Externals,
    workload: W,
    tools: Tools,
    ambient: Ambient,
    plane: PlaneName,
    contacts: Contacts,
}

/// Clock and randomness; a simulation replaces them.
#[derive(Clone)]
pub struct Ambient {
    /// Returns the current time.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Returns a random suffix for the name of a new machine.
    pub suffix: Arc<dyn Fn() -> String + Send + Sync>,
}

impl Default for Ambient {
    fn default() -> Self {
        Self { clock: Arc::new(Timestamp::now), suffix: Arc::new(capstan_controller::names::random_suffix) }
    }
}

/// What the controller uses besides the API server.
#[derive(Clone)]
pub struct Tools {
    /// The software for machines.
    pub software: Software,
    /// Software for machines that accept any, such as simulated ones.
    pub spare: Option<Spare>,
    /// Client for the etcd of workload clusters.
    pub etcd: Arc<dyn Etcd>,
}

impl<W: Workload> ControlPlane<W> {
    /// A controller that reaches workload clusters through `workload`, usually
    /// [`Remotes`](capstan_controller::remote::Remotes).
    pub fn new(caches: Caches, externals: Externals, workload: W, tools: Tools) -> Self {
        let plane = PlaneName::of(caches.client().clone());
        let (ambient, contacts) = (Ambient::default(), Contacts::default());
        let (live, doubts) = (Caches::live(caches.client().clone()), Doubts::default());
        Self { caches, live, doubts, externals, workload, tools, ambient, plane, contacts }
    }

    /// Sets clock and randomness.
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
        // A live read: decisions must not be based on a state before the last write.
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
                return act::release(&api, &object).await;
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
        let mut seen = Observed::new(&scope);
        let result = match object.metadata.deletion_timestamp.is_some() {
            false => Box::pin(self.phases(&mut seen)).await,
            true => Box::pin(act::end(&mut seen)).await,
        };
        let done = seen.ending == Some(Ending::Done);
        act::finish(&seen, &api, result).await?;
        if done { act::release(&api, &object).await } else { Ok(seen.next) }
    }

    async fn phases(&self, seen: &mut Observed<'_>) -> Result<()> {
        let worked = self.work(seen).await;
        // Last: whether a machine is up to date is known only after its plan was checked.
        let synced = match seen.certificates {
            None => machines::sync(seen).await,
            Some(_) => Ok(()),
        };
        worked.and(synced)
    }

    async fn work(&self, seen: &mut Observed<'_>) -> Result<()> {
        let (scope, workload, tools) = (seen.scope, &self.workload, &self.tools);
        seen.read(workload).await?;
        machines::own_template(scope).await?;
        if !scope.is_infrastructure_provisioned() && !seen.initialized {
            return Ok(());
        }
        let Some(keys) = certificates::keys(seen).await? else { return Ok(()) };
        if certificates::is_plan_key_switched(seen) {
            plans::sign_again(seen, &keys).await?;
        }
        if certificates::rotate(seen, &keys).await? {
            seen.again();
            return Ok(());
        }
        seen.look(Some(&keys));
        let Some(endpoint) = scope.endpoint() else {
            seen.step = MachineStep::Wait(wait::endpoint());
            return Ok(());
        };
        kubeconfig::write(seen, &endpoint).await?;
        if act::begin(seen, workload).await? || machines::note_what_was_made(seen).await? {
            seen.again();
            return Ok(());
        }
        let access = etcd::access(seen, &keys);
        etcd::ask(seen, tools.etcd.as_ref(), &access).await;
        if etcd::leave(seen, tools.etcd.as_ref(), &access).await? {
            seen.again();
            return Ok(());
        }
        healing::heal(seen).await?;
        machines::step(seen, &endpoint, workload).await?;
        if act::elect(seen).await? {
            plans::plan(seen, &endpoint, &keys, tools, workload).await?;
        }
        Ok(())
    }
}

impl<W: Workload> Reconciler for ControlPlane<W> {
    type Object = CapstanControlPlane;

    fn name(&self) -> &'static str {
        "capstancontrolplane"
    }

    fn summaries(&self) -> &'static [&'static str] {
        &["CertificatesAvailable", "MachinesReady", "MachinesUpToDate", "ScalingUp", "ScalingDown"]
    }

    async fn reconcile(&self, object: Arc<CapstanControlPlane>) -> Result<Next> {
        let uid = object.uid().unwrap_or_default();
        let caches = if self.doubts.begin(&uid) { &self.live } else { &self.caches };
        let ended = Box::pin(self.look(caches, object)).await;
        self.doubts.end(&uid, &ended);
        ended
    }
}
