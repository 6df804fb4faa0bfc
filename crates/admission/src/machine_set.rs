//! MachineSets.

use crate::selector::Selector;
use crate::{object, replicas, template};
use capstan_api::core::MachineSet;
use capstan_api::meta::labels;
use capstan_text::label_value;
use capstan_topology::FieldError;
use serde_json::Value;

pub(crate) fn default(set: &mut Value, old: Option<&Value>) -> Vec<FieldError> {
    object::set_cluster_label(set);
    let errors = replicas::default(set, old);
    let name = label_value(object::text(set, &["metadata", "name"]));
    template::default_selector(set, labels::SET_NAME, &name);
    object::set_version_prefix(set, &["spec", "template", "spec"], "version");
    errors
}

pub(crate) fn validate(set: &MachineSet, selector: &Selector) -> Vec<FieldError> {
    let template = &set.spec.template;
    let mut errors = template::selected(selector, template);
    errors.extend(template::skipped_checks(set.metadata.annotations.as_ref()));
    errors.extend(template::taints_of_workers(&template.spec.taints, "spec.template.spec.taints"));
    errors.extend(template::naming(set.spec.machine_naming.as_ref()));
    errors.extend(template::metadata(template));
    errors
}
