//! Rules for kinds that make Machines from a template, and for taints of Machines.

use crate::object;
use crate::selector::{self, Selector};
use capstan_api::core::{MachineNamingSpec, MachineTaint, MachineTemplateSpec};
use capstan_api::meta::{annotations, labels};
use capstan_text::machine_name;
use capstan_topology::validation::{taints, words};
use capstan_topology::{FieldError, field};
use serde_json::Value;
use std::collections::BTreeMap;

const TEMPLATE: &str = "spec.template";

/// The taint that kubeadm and others set on control plane machines.
const CONTROL_PLANE_TAINT: &str = "node-role.kubernetes.io/control-plane";

/// The checks before a MachineSet creates Machines.
const PREFLIGHT_CHECKS: [&str; 5] =
    ["All", "ControlPlaneIsStable", "ControlPlaneVersionSkew", "KubeadmVersionSkew", "KubernetesVersionSkew"];

/// Makes an empty selector select the Machines of this object, by a label that the template gets, too.
pub(crate) fn default_selector(object: &mut Value, label: &str, value: &str) {
    if selector::is_empty(object::at(object, &["spec", "selector"])) {
        object::set(object, &["spec", "selector", "matchLabels"], label, value);
        set_label(object, label, value);
    }
}

/// Sets a label of the Machines.
pub(crate) fn set_label(object: &mut Value, label: &str, value: &str) {
    object::set(object, &["spec", "template", "metadata", "labels"], label, value);
}

/// Errors of a selector: it must be valid, and select the Machines of the template.
pub(crate) fn selected(selector: &Selector, template: &MachineTemplateSpec) -> Vec<FieldError> {
    let errors = selector::errors(selector, "spec.selector");
    if !errors.is_empty() {
        return errors;
    }
    let none = BTreeMap::new();
    let labels = template.metadata.as_ref().map_or(&none, |metadata| &metadata.labels);
    if selector::matches(selector, labels) {
        return Vec::new();
    }
    let shown = selector::text(selector);
    vec![field::forbidden("spec.template.metadata.labels", format!("must match spec.selector {shown:?}"))]
}

/// Errors of the labels and annotations that Machines get.
pub(crate) fn metadata(template: &MachineTemplateSpec) -> Vec<FieldError> {
    words::metadata(template.metadata.as_ref(), &field::child(TEMPLATE, "metadata"))
}

/// Errors of the taints of workers.
pub(crate) fn taints_of_workers(of: &[MachineTaint], at: &str) -> Vec<FieldError> {
    let mut errors = taints(of, at);
    for (i, taint) in of.iter().enumerate().filter(|(_, taint)| taint.key == CONTROL_PLANE_TAINT) {
        let at = field::child(&field::entry(at, i), "key");
        errors.push(field::invalid(&at, taint.key.as_str(), "cannot be set on workers"));
    }
    errors
}

/// Errors of the taints of a Machine with these labels.
pub(crate) fn taints_of(of: &[MachineTaint], labels: Option<&BTreeMap<String, String>>) -> Vec<FieldError> {
    let at = "spec.taints";
    match labels.is_some_and(|labels| labels.contains_key(labels::CONTROL_PLANE)) {
        true => taints(of, at),
        false => taints_of_workers(of, at),
    }
}

/// Errors of the template of names of Machines.
pub(crate) fn naming(naming: Option<&MachineNamingSpec>) -> Vec<FieldError> {
    let at = "spec.machineNaming.template";
    let Some(template) = naming.and_then(|naming| naming.template.as_deref()) else { return Vec::new() };
    match machine_name(template, "cluster", "machineset", "xxxxx") {
        Ok(name) if words::is_subdomain(&name) => Vec::new(),
        Ok(name) => {
            let why = format!("makes names such as {name:?}, which are not names of objects");
            vec![field::invalid(at, template, why)]
        }
        Err(error) => vec![field::invalid(at, template, error.to_string())],
    }
}

/// An error if the annotation skips a check that does not exist.
pub(crate) fn skipped_checks(of: Option<&BTreeMap<String, String>>) -> Option<FieldError> {
    let skipped = of?.get(annotations::SKIP_PREFLIGHT_CHECKS).filter(|skipped| !skipped.is_empty())?;
    let is_unknown = |check: &&str| !PREFLIGHT_CHECKS.contains(check);
    let unknown: Vec<&str> = skipped.split(',').map(str::trim).filter(is_unknown).collect();
    if unknown.is_empty() {
        return None;
    }
    let at = field::child("metadata.annotations", annotations::SKIP_PREFLIGHT_CHECKS);
    let why = format!("must be a list of some of {}", PREFLIGHT_CHECKS.join(", "));
    Some(field::invalid(&at, unknown.join(","), why))
}

/// An error if the name of an object cannot be the value of a label.
pub(crate) fn name_as_label(name: Option<&str>) -> Option<FieldError> {
    let name = name.unwrap_or_default();
    let why = "must have at most 63 characters, because it becomes the value of a label";
    (!words::is_label(name)).then(|| field::invalid("metadata.name", name, why))
}
