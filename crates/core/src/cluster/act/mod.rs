//! Owns the objects of the providers, opens the connection, and deletes what has to go.

pub(super) mod kubeconfig;

use capstan_api::core::{Cluster, Machine, MachineDeployment, MachinePool, MachineSet};
use capstan_controller::{Grounds, Next, Result, destroy};
use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

use super::ClusterReconciler;
use super::decide::delete::{Deletion, Target};
use super::decide::handoff::{self, provisioned};
use super::observe::Observed;
use crate::external::{self, Reading};

impl ClusterReconciler {
    /// Providers do nothing for an object that no Cluster owns.
    pub(super) async fn claim(&self, cluster: &Cluster, observed: &Observed) -> Result<()> {
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
    pub(super) async fn connect(&self, cluster: &Cluster) -> Result<()> {
        if provisioned(cluster) && !handoff::is_deleting(cluster) {
            let namespace = cluster.namespace().unwrap_or_default();
            self.core.remotes.client(&namespace, &cluster.name_any()).await?;
        }
        Ok(())
    }

    pub(super) async fn carry_out(&self, cluster: &Cluster, deletion: &Deletion) -> Result<Next> {
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
