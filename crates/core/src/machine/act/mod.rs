//! Sets owners of the providers' objects, writes the Node, and carries out updates and deletions.

pub(super) mod delete;
mod first_failures;
pub(super) mod node;
mod pauses;
mod update;

use capstan_api::core::Machine;
use capstan_controller::Result;
use kube::ResourceExt as _;

use super::MachineReconciler;
use super::decide::ownership;
use super::observe::Observed;
use crate::external::{self, Reading};

pub(super) use first_failures::FirstFailures;
pub(super) use pauses::Pauses;

impl MachineReconciler {
    /// Providers ignore an object that has no Machine as owner.
    pub(super) async fn claim(&self, machine: &Machine, observed: &Observed) -> Result<()> {
        let namespace = machine.namespace().unwrap_or_default();
        let references = [
            (machine.spec.bootstrap.config_ref.as_ref(), &observed.bootstrap),
            (Some(&machine.spec.infrastructure_ref), &observed.infrastructure),
        ];
        for (reference, reading) in references {
            if let (Some(reference), Reading::Found(object)) = (reference, reading) {
                let owners = ownership::owners_with(machine, &observed.cluster, object);
                let cluster = &machine.spec.cluster_name;
                external::claim(&self.core, reference, &namespace, object, &owners, cluster).await?;
            }
        }
        Ok(())
    }
}
