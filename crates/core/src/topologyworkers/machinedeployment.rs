//! The reconciler for MachineDeployments.

use capstan_api::core::MachineDeployment;
use capstan_controller::patch::Patcher;
use capstan_controller::{Next, Reconciler, Result, finalizers};
use kube::ResourceExt as _;
use std::sync::Arc;

use super::names::MACHINE_DEPLOYMENT_FINALIZER as FINALIZER;
use super::{act, decide, observe};
use crate::Core;

/// Deletes the templates of MachineDeployments of a topology.
pub struct TopologyMachineDeploymentReconciler {
    core: Core,
}

impl TopologyMachineDeploymentReconciler {
    /// A reconciler with these clients.
    pub fn new(core: Core) -> Self {
        Self { core }
    }
}

impl Reconciler for TopologyMachineDeploymentReconciler {
    type Object = MachineDeployment;

    fn name(&self) -> &'static str {
        "topology-machinedeployment"
    }

    async fn reconcile(&self, object: Arc<MachineDeployment>) -> Result<Next> {
        let (core, namespace) = (&self.core, object.namespace().unwrap_or_default());
        let api = core.api::<MachineDeployment>(&namespace);
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
        act::delete_health_check(core, &namespace, &object.name_any()).await?;
        let mut updated = object.as_ref().clone();
        finalizers::remove(&mut updated.metadata, FINALIZER);
        Patcher::new(api, object.as_ref()).finish(&updated, &[]).await?;
        Ok(Next::Changed)
    }
}
