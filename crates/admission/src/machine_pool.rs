//! MachinePools.

use crate::machine::NODE_DELETION_TIMEOUT;
use crate::{object, replicas, template};
use capstan_api::core::MachinePool;
use capstan_topology::{FieldError, field};
use serde_json::Value;

const TEMPLATE: &[&str] = &["spec", "template", "spec"];

pub(crate) fn default(pool: &mut Value, old: Option<&Value>) -> Vec<FieldError> {
    object::set_cluster_label(pool);
    let errors = replicas::default(pool, old);
    if object::at(pool, TEMPLATE).is_some() {
        let deletion = &[TEMPLATE, &["deletion"]].concat();
        object::set_default(pool, deletion, "nodeDeletionTimeoutSeconds", NODE_DELETION_TIMEOUT);
    }
    object::set_version_prefix(pool, TEMPLATE, "version");
    errors
}

pub(crate) fn validate(pool: &MachinePool) -> Vec<FieldError> {
    let template = &pool.spec.template;
    let mut errors = Vec::new();
    if !template.spec.taints.is_empty() {
        let why = "Machines of MachinePools have no taints: the provider of the pool sets those of its Nodes";
        errors.push(field::forbidden("spec.template.spec.taints", why));
    }
    errors.extend(template::metadata(template));
    errors
}
