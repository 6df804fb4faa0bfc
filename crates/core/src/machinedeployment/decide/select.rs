//! Which MachineSet has the current template of a MachineDeployment, and which are old. Pure.

use capstan_api::core::{Bootstrap, MachineDeployment, MachineSet, MachineTemplateSpec};
use capstan_api::meta::ContractVersionedObjectReference;
use jiff::Timestamp;
use kube::ResourceExt as _;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Differences between two templates in fields that require a new Machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// With the field and both values, for logs.
    pub detailed: Vec<String>,
    /// As in the message of a condition.
    pub summary: Vec<String>,
}

impl Differences {
    /// Whether there is no difference.
    pub fn is_none(&self) -> bool {
        self.summary.is_empty()
    }
}

/// Compares two templates, without fields that are propagated in place and without the version of references.
pub fn differences(current: &MachineTemplateSpec, wanted: &MachineTemplateSpec) -> Differences {
    let (current, wanted) = (&current.spec, &wanted.spec);
    let mut differences = Differences::default();
    let mut add = |detailed: String, summary: String| {
        differences.detailed.push(detailed);
        differences.summary.push(summary);
    };
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    if current.version != wanted.version {
        let (is, should) = (text(&current.version), text(&wanted.version));
        add(format!("spec.version {is}, {should} required"), format!("Version {is}, {should} required"));
    }
    if current.bootstrap != wanted.bootstrap {
        let (detailed, summary) = bootstrap(&current.bootstrap, &wanted.bootstrap);
        add(detailed, summary);
    }
    if current.infrastructure_ref != wanted.infrastructure_ref {
        let (is, should) = (&current.infrastructure_ref, &wanted.infrastructure_ref);
        add(format!("spec.infrastructureRef {}, {} required", called(is), called(should)), outdated(is));
    }
    if current.failure_domain != wanted.failure_domain {
        let (is, should) = (text(&current.failure_domain), text(&wanted.failure_domain));
        add(
            format!("spec.failureDomain {is}, {should} required"),
            format!("Failure domain {is}, {should} required"),
        );
    }
    differences
}

fn bootstrap(current: &Bootstrap, wanted: &Bootstrap) -> (String, String) {
    if let Some(is) = &current.config_ref {
        let should = wanted.config_ref.as_ref().map(called).unwrap_or_default();
        return (format!("spec.bootstrap.configRef {}, {should} required", called(is)), outdated(is));
    }
    let name = |bootstrap: &Bootstrap| bootstrap.data_secret_name.clone().unwrap_or_else(|| "nil".to_owned());
    let text = format!("spec.bootstrap.dataSecretName {}, {} required", name(current), name(wanted));
    (text.clone(), text)
}

fn called(reference: &ContractVersionedObjectReference) -> String {
    format!("{} {}", reference.kind, reference.name)
}

fn outdated(reference: &ContractVersionedObjectReference) -> String {
    let kind = reference.kind.strip_suffix("Template").unwrap_or(&reference.kind);
    format!("{kind} is not up-to-date")
}

/// The MachineSets of a MachineDeployment, classified.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The MachineSet of the current template.
    pub new: Option<MachineSet>,
    /// All others.
    pub old: Vec<MachineSet>,
    /// Old MachineSets that differ only in their template, so that their Machines may be updated in place.
    pub eligible: BTreeSet<String>,
    /// Why there is no new MachineSet.
    pub reason: String,
}

/// Classifies MachineSets. If several match the template, the one with most machines is the new one.
pub fn select(deployment: &MachineDeployment, mut sets: Vec<MachineSet>, now: Timestamp) -> Selection {
    let mut selection = Selection::default();
    if sets.is_empty() {
        selection.reason = "no MachineSets exist for the MachineDeployment".to_owned();
        return selection;
    }
    let after = deployment.spec.rollout.as_ref().and_then(|rollout| rollout.after.clone());
    let after = after.filter(|after| after.0 <= now);
    // Made too early to count, since the time for a rollout has come.
    let is_expired = |set: &MachineSet| {
        after
            .as_ref()
            .is_some_and(|after| set.metadata.creation_timestamp.as_ref().is_some_and(|c| c.0 < after.0))
    };

    sets.sort_by_key(|set| {
        (Reverse(set.spec.replicas.unwrap_or(0)), set.metadata.creation_timestamp.clone(), set.name_any())
    });
    let mut reasons = vec![];
    for set in sets {
        let differences = differences(&set.spec.template, &deployment.spec.template);
        let expired = is_expired(&set);
        if differences.is_none() && !expired && selection.new.is_none() {
            selection.new = Some(set);
            continue;
        }
        if !differences.is_none() {
            let detailed = differences.detailed.join(", ");
            reasons.push(format!("MachineSet {} needs rollout: {detailed}", set.name_any()));
            if !expired {
                selection.eligible.insert(set.name_any());
            }
        }
        selection.old.push(set);
    }
    if selection.new.is_none() {
        selection.reason = match (&after, reasons.len() == selection.old.len()) {
            (Some(after), false) => format!(
                "spec.rollout.after on MachineDeployment set to {}, no MachineSet has been created afterwards",
                capstan_controller::text::rfc3339(after.0)
            ),
            _ => {
                let reasons = reasons.join("; ");
                format!("couldn't find MachineSet matching MachineDeployment spec template: {reasons}")
            }
        };
    }
    selection
}

#[cfg(test)]
#[path = "tests/select.rs"]
mod tests;
