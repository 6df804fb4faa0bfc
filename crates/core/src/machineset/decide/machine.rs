//! What the controllers in front of Machines ask of one. Pure.

use capstan_api::conditions::{is_false, is_true};
use capstan_api::core::Machine;
use kube::ResourceExt as _;

use crate::names::machine::types;

/// Whether an annotation requests its deletion.
pub(crate) fn is_deleting(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_some()
}

/// Whether it has an annotation, whatever its value.
pub(crate) fn is_annotated(machine: &Machine, key: &str) -> bool {
    machine.annotations().contains_key(key)
}

/// Whether it is being changed in place, or about to be.
pub(crate) fn is_updating(machine: &Machine) -> bool {
    capstan_controller::in_place::is_updating(&machine.metadata)
}

/// Whether it has become a Node.
pub(crate) fn has_node(machine: &Machine) -> bool {
    machine.status.as_ref().is_some_and(|status| status.node_ref.is_some())
}

/// Whether a health check has failed.
pub(crate) fn is_unhealthy(machine: &Machine) -> bool {
    is_false(machine, types::HEALTH_CHECK_SUCCEEDED)
}

/// Whether a health check has failed and its owner is asked to do something about it.
pub(crate) fn is_to_be_remediated(machine: &Machine) -> bool {
    is_unhealthy(machine) && is_false(machine, types::OWNER_REMEDIATED)
}

/// Whether it was asked to be remediated and has recovered since.
pub(crate) fn has_recovered(machine: &Machine) -> bool {
    is_true(machine, types::HEALTH_CHECK_SUCCEEDED) && is_false(machine, types::OWNER_REMEDIATED)
}
