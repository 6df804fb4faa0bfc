//! Cluster: takes over what its infrastructure and its control plane provide, and orders their deletion.
//!
//! Reads: the Cluster, the two objects it refers to, all that carries its label, the health of its connection.
//! Writes: owners and label of the two objects, deletions, the kubeconfig Secret of a cluster without a control plane
//! provider, and of the Cluster finalizer, endpoint and status.
//! Phases: observe, take over from the providers, own their objects, delete or make the kubeconfig, connect, status.

mod act;
mod decide;
mod observe;
mod status;
#[cfg(test)]
mod tests;
mod triggers;

use capstan_api::core::Cluster;
use capstan_controller::patch::Patcher;
use capstan_controller::queue::Limits;
use capstan_controller::{Next, Reconciler, Result, finalizers, pause};
use kube::ResourceExt as _;
use std::sync::Arc;

use crate::Core;
use crate::names::cluster::FINALIZER;
use crate::step::Steps;
use act::kubeconfig;
use decide::delete::{self, Deletion};
use decide::handoff;
use observe::Observed;

pub use decide::handoff::{initialized, provisioned};
pub use triggers::run;

/// Reconciles Clusters.
pub struct ClusterReconciler {
    core: Core,
}

impl ClusterReconciler {
    /// A reconciler with these clients.
    pub fn new(core: Core) -> Self {
        Self { core }
    }
}

impl Reconciler for ClusterReconciler {
    type Object = Cluster;

    fn name(&self) -> &'static str {
        "cluster"
    }

    fn limits(&self) -> Limits {
        Limits::summing_up()
    }

    fn summaries(&self) -> &'static [&'static str] {
        // `Available` is not among them: people and scripts wait for it.
        &[
            "controlPlane",
            "workers",
            "ControlPlaneAvailable",
            "ControlPlaneMachinesReady",
            "ControlPlaneMachinesUpToDate",
            "WorkersAvailable",
            "WorkerMachinesReady",
            "WorkerMachinesUpToDate",
            "RollingOut",
            "ScalingUp",
            "ScalingDown",
            "Remediating",
        ]
    }

    async fn reconcile(&self, object: Arc<Cluster>) -> Result<Next> {
        let core = &self.core;
        let namespace = object.namespace().unwrap_or_default();
        let api = core.api::<Cluster>(&namespace);
        let now = core.now();
        if finalizers::ensure(&api, &object, FINALIZER).await?
            || !pause::allows(&api, object.as_ref(), Some(&object), now).await?
        {
            return Ok(Next::Changed);
        }

        let mut steps = Steps::new();
        let mut observed = observe::observe(core, &object, &mut steps).await;
        let mut cluster = object.as_ref().clone();
        steps.add(handoff::infrastructure(&mut cluster, &observed.infrastructure));
        steps.add(handoff::control_plane(&mut cluster, &observed.control_plane));
        steps.check(self.claim(&cluster, &observed).await);

        let deletion = match handoff::is_deleting(&cluster) {
            true => Some(self.deletion(&cluster, &mut observed, &mut steps).await),
            false => None,
        };
        match &deletion {
            Some(deletion) => steps.add(self.carry_out(&cluster, deletion).await),
            None => steps.add(kubeconfig::ensure(core, &cluster).await),
        }
        steps.check(self.connect(&cluster).await);

        status::update(&mut cluster, &observed, deletion.as_ref(), now);
        if steps.succeeded() {
            cluster.status.get_or_insert_default().observed_generation = cluster.metadata.generation;
            if deletion.is_some_and(|deletion| deletion.is_done) {
                finalizers::remove(&mut cluster.metadata, FINALIZER);
                core.remotes.forget(&(namespace, cluster.name_any()));
            }
        }
        pause::lifted(&mut cluster, now);
        steps.check(Patcher::new(api, &object).finish(&cluster, status::OWNED).await);
        steps.end()
    }
}

impl ClusterReconciler {
    /// What to do next about a Cluster that is being deleted, by the cache. Before something is deleted, and before the
    /// Cluster itself goes, by a live read.
    async fn deletion(&self, cluster: &Cluster, observed: &mut Observed, steps: &mut Steps) -> Deletion {
        let decided = delete::decide(cluster, observed);
        if !decided.acts() {
            return decided;
        }
        observed.descendants = steps.take(observe::descendants_now(&self.core, cluster).await);
        delete::decide(cluster, observed)
    }
}
