//! The reconciler for MachineSets.

use capstan_api::core::MachineSet;
use capstan_controller::patch::Patcher;
use capstan_controller::{Next, Reconciler, Result, finalizers};
use kube::ResourceExt as _;
use std::sync::Arc;

use super::names::MACHINE_SET_FINALIZER as FINALIZER;
use super::{act, decide, observe};
use crate::Core;

/// Deletes the templates of MachineSets of a topology.
pub struct TopologyMachineSetReconciler {
    core: Core,
}

impl TopologyMachineSetReconciler {
    /// A reconciler with these clients.
    pub fn new(core: Core) -> Self {
        Self { core }
    }
}

impl Reconciler for TopologyMachineSetReconciler {
    type Object = MachineSet;

    fn name(&self) -> &'static str {
        "topology-machineset"
    }

    async fn reconcile(&self, object: Arc<MachineSet>) -> Result<Next> {
        let (core, namespace) = (&self.core, object.namespace().unwrap_or_default());
        let api = core.api::<MachineSet>(&namespace);
        if !decide::is_of_topology(object.labels())
            || observe::is_paused(core, object.as_ref(), &object.spec.cluster_name).await?
            || finalizers::ensure(&api, object.as_ref(), FINALIZER).await?
            || object.metadata.deletion_timestamp.is_none()
            || !finalizers::has(&object.metadata, FINALIZER)
        {
            return Ok(Next::Changed);
        }
        let (deployments, sets) = observe::users(core, &namespace, &object.spec.cluster_name).await?;
        let in_use = decide::in_use(&deployments, &sets);
        let unused = decide::unused(&object.spec.template, &in_use);
        act::delete_templates(core, &namespace, &object.spec.cluster_name, &unused).await?;
        let mut updated = object.as_ref().clone();
        finalizers::remove(&mut updated.metadata, FINALIZER);
        Patcher::new(api, object.as_ref()).finish(&updated, &[]).await?;
        Ok(Next::Changed)
    }
}
