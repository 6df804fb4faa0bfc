//! Machines.

use crate::{object, template};
use capstan_api::core::Machine;
use capstan_api::meta::labels;
use capstan_topology::{FieldError, field};
use serde_json::Value;

/// How long the deletion of a Node is retried, in seconds.
pub(crate) const NODE_DELETION_TIMEOUT: i32 = 10;

pub(crate) fn default(machine: &mut Value) -> Vec<FieldError> {
    object::set_cluster_label(machine);
    object::set_version_prefix(machine, &["spec"], "version");
    object::set_default(machine, &["spec", "deletion"], "nodeDeletionTimeoutSeconds", NODE_DELETION_TIMEOUT);
    Vec::new()
}

pub(crate) fn validate(machine: &Machine) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let bootstrap = &machine.spec.bootstrap;
    if bootstrap.config_ref.is_none() && bootstrap.data_secret_name.is_none() && !is_of_a_pool(machine) {
        errors.push(field::required("spec.bootstrap", "needs a configRef or a dataSecretName"));
    }
    errors.extend(template::taints_of(&machine.spec.taints, machine.metadata.labels.as_ref()));
    errors
}

/// Whether a MachinePool owns the Machine. Its provider has the bootstrap data then.
fn is_of_a_pool(machine: &Machine) -> bool {
    let metadata = &machine.metadata;
    metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(labels::POOL_NAME))
        || metadata.owner_references.iter().flatten().any(|owner| owner.kind == "MachinePool")
}
