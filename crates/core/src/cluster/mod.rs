//! Cluster: the hand-offs to its infrastructure and its control plane, what it says of itself, and in which order it
//! goes.
//!
//! Reads: the Cluster, the two objects it refers to, all that carries its label, the health of its connection. Writes:
//! owners and label of the two objects, deletions, the kubeconfig Secret of a cluster without a control plane provider,
//! and of the Cluster finalizer, endpoint and status.

mod conditions;
mod delete;
mod handoff;
mod kubeconfig;
mod observe;
mod replicas;
#[cfg(test)]
mod tests;
mod triggers;

use capstan_api::core::{Cluster, Machine, MachineDeployment, MachinePool, MachineSet};
use capstan_controller::patch::Patcher;
use capstan_controller::queue::Limits;
use capstan_controller::{Grounds, Next, Reconciler, Result, destroy, finalizers, pause};
use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::Arc;

use crate::Core;
use crate::external::{self, Reading};
use crate::names::cluster::FINALIZER;
use crate::step::Steps;
use delete::{Deletion, Target};
use observe::Observed;

pub use handoff::{initialized, provisioned};
pub use triggers::run;

/// Reconciles Clusters.
pub struct ClusterReconciler {
    core: Core,
}

impl ClusterReconciler {
    /// A reconciler on these clients.
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
        &["controlPlane", "workers"]
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
        let observed = observe::observe(core, &object, &mut steps).await;
        let mut cluster = object.as_ref().clone();
        steps.add(handoff::infrastructure(&mut cluster, &observed.infrastructure));
        steps.add(handoff::control_plane(&mut cluster, &observed.control_plane));
        steps.check(self.claim(&cluster, &observed).await);

        let deletion = handoff::is_deleting(&cluster).then(|| delete::decide(&cluster, &observed));
        match &deletion {
            Some(deletion) => steps.add(self.carry_out(&cluster, deletion).await),
            None => steps.add(kubeconfig::ensure(core, &cluster).await),
        }
        steps.check(self.connect(&cluster).await);

        replicas::count(&mut cluster, &observed);
        conditions::tell(&mut cluster, &observed, deletion.as_ref(), now);
        if steps.succeeded() {
            cluster.status.get_or_insert_default().observed_generation = cluster.metadata.generation;
            if deletion.is_some_and(|deletion| deletion.is_done) {
                finalizers::remove(&mut cluster.metadata, FINALIZER);
                core.remotes.forget(&(namespace, cluster.name_any()));
            }
        }
        pause::lifted(&mut cluster, now);
        steps.check(Patcher::new(api, &object).finish(&cluster, conditions::OWNED).await);
        steps.end()
    }
}

impl ClusterReconciler {
    /// Providers do nothing for an object that no Cluster owns.
    async fn claim(&self, cluster: &Cluster, observed: &Observed) -> Result<()> {
        let namespace = cluster.namespace().unwrap_or_default();
        let references = [
            (&cluster.spec.infrastructure_ref, &observed.infrastructure),
            (&cluster.spec.control_plane_ref, &observed.control_plane),
        ];
        for (reference, reading) in references {
            if let (Some(reference), Reading::Found(object)) = (reference, reading) {
                let owners = handoff::owners_with(cluster, object);
                let name = cluster.name_any();
                external::claim(&self.core, reference, &namespace, object, &owners, &name).await?;
            }
        }
        Ok(())
    }

    /// Opens the connection as soon as there can be one; its probes wake this reconciler.
    async fn connect(&self, cluster: &Cluster) -> Result<()> {
        if provisioned(cluster) && !handoff::is_deleting(cluster) {
            let namespace = cluster.namespace().unwrap_or_default();
            self.core.remotes.client(&namespace, &cluster.name_any()).await?;
        }
        Ok(())
    }

    async fn carry_out(&self, cluster: &Cluster, deletion: &Deletion) -> Result<Next> {
        let namespace = cluster.namespace().unwrap_or_default();
        for target in &deletion.delete {
            match target {
                Target::Pool(name) => self.delete::<MachinePool>(&namespace, name).await?,
                Target::Deployment(name) => self.delete::<MachineDeployment>(&namespace, name).await?,
                Target::Set(name) => self.delete::<MachineSet>(&namespace, name).await?,
                Target::Machine(name) => self.delete::<Machine>(&namespace, name).await?,
                Target::ControlPlane => {
                    if let Some(reference) = &cluster.spec.control_plane_ref {
                        external::delete(&self.core, reference, &namespace).await?;
                    }
                }
                Target::Infrastructure => {
                    if let Some(reference) = &cluster.spec.infrastructure_ref {
                        external::delete(&self.core, reference, &namespace).await?;
                    }
                }
            }
        }
        Ok(deletion.next)
    }

    async fn delete<K>(&self, namespace: &str, name: &str) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let grounds = Grounds::asked("its Cluster is deleted");
        destroy::delete_by_name(&self.core.api::<K>(namespace), name, &grounds).await
    }
}
