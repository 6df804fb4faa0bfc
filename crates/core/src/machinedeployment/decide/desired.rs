//! The desired state of a MachineSet of a MachineDeployment. Pure.

use capstan_api::core::{
    MachineDeployment, MachineSet, MachineSetSpec, MachineTemplateSpec, RolloutStrategyType,
};
use capstan_api::meta::{TemplateMetadata, annotations, labels};
use capstan_controller::names::suffix_of;
use capstan_plan::Digest;
use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::super::names::{DESIRED_REPLICAS, MAX_REPLICAS, NOT_HANDED_DOWN};
use super::draft_name;
use super::limits::Limits;
use crate::machineset::desired::controller;
use crate::machineset::names::FINALIZER;

/// What a MachineSet is made from.
#[derive(Clone, Debug)]
pub(crate) enum Basis<'a> {
    /// The MachineSet exists.
    There(&'a MachineSet),
    /// The MachineSet does not exist yet; this is the suffix of its name.
    Draft(String),
}

/// The whole MachineSet: the one that is there with what is handed down in place, or a new one without machines. Revisions
/// and what steers a rollout come on top.
pub(crate) fn machine_set(deployment: &MachineDeployment, limits: Limits, basis: &Basis<'_>) -> MachineSet {
    let (current, name) = match basis {
        Basis::There(current) => (Some(*current), current.name_any()),
        Basis::Draft(suffix) => (None, format!("{}{suffix}", draft_name::base(deployment))),
    };
    let unique = unique(deployment, basis);
    let with_unique = |map: &BTreeMap<String, String>| {
        let mut map = map.clone();
        map.insert(labels::MACHINE_TEMPLATE_HASH.to_owned(), unique.clone());
        map
    };
    let wanted = &deployment.spec.template;
    let template_metadata = wanted.metadata.clone().unwrap_or_default();
    let mut own_labels = with_unique(&template_metadata.labels);
    own_labels.insert(labels::DEPLOYMENT_NAME.to_owned(), deployment.name_any());
    own_labels.insert(labels::CLUSTER_NAME.to_owned(), deployment.spec.cluster_name.clone());
    let mut selector = deployment.spec.selector.clone();
    selector.match_labels = Some(with_unique(&selector.match_labels.unwrap_or_default()));

    let mut machine = current.map_or_else(|| wanted.spec.clone(), |set| set.spec.template.spec.clone());
    machine.min_ready_seconds = wanted.spec.min_ready_seconds;
    machine.readiness_gates.clone_from(&wanted.spec.readiness_gates);
    machine.deletion.clone_from(&wanted.spec.deletion);
    machine.taints.clone_from(&wanted.spec.taints);

    let spec = MachineSetSpec {
        cluster_name: deployment.spec.cluster_name.clone(),
        replicas: Some(current.and_then(|set| set.spec.replicas).unwrap_or(0)),
        selector,
        template: MachineTemplateSpec {
            metadata: Some(TemplateMetadata {
                labels: with_unique(&template_metadata.labels),
                annotations: template_metadata.annotations,
            }),
            spec: machine,
        },
        machine_naming: deployment.spec.machine_naming.clone(),
        deletion: deployment.spec.deletion.clone(),
    };
    let mut set = MachineSet::new(&name, spec);
    set.metadata = ObjectMeta {
        name: Some(name),
        namespace: deployment.namespace(),
        uid: current.and_then(kube::ResourceExt::uid),
        creation_timestamp: current.and_then(|set| set.metadata.creation_timestamp.clone()),
        labels: Some(own_labels),
        annotations: Some(own_annotations(deployment, limits)),
        owner_references: controller(deployment).map(|owner| vec![owner]),
        // All that are there, so that none is taken away; on a new one its own, before anything can go wrong.
        finalizers: current
            .map_or_else(|| Some(vec![FINALIZER.to_owned()]), |set| set.metadata.finalizers.clone()),
        ..ObjectMeta::default()
    };
    set.status = current.and_then(|set| set.status.clone());
    set
}

fn own_annotations(deployment: &MachineDeployment, limits: Limits) -> BTreeMap<String, String> {
    let mut all = deployment.annotations().clone();
    all.retain(|key, _| !NOT_HANDED_DOWN.contains(&key.as_str()));
    all.insert(DESIRED_REPLICAS.to_owned(), limits.desired.to_string());
    all.insert(MAX_REPLICAS.to_owned(), limits.most().to_string());
    all
}

/// Puts on a set whether it may make machines: an old one must not under `OnDelete`, where it only shrinks.
pub(crate) fn allow_creation(set: &mut MachineSet, is_new: bool, strategy: RolloutStrategyType) {
    let forbidden = !is_new && strategy == RolloutStrategyType::OnDelete;
    annotate(set, annotations::DISABLE_MACHINE_CREATE, forbidden.to_string());
}

pub(crate) fn annotate(set: &mut MachineSet, key: &str, value: String) {
    set.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value);
}

/// The label that distinguishes the Machines of the MachineSets: a number for the template, and five
/// characters. One that is adopted may be without; two of them must not get the same.
fn unique(deployment: &MachineDeployment, basis: &Basis<'_>) -> String {
    let suffix = match basis {
        Basis::Draft(suffix) => suffix.clone(),
        Basis::There(set) => match set.labels().get(labels::MACHINE_TEMPLATE_HASH) {
            Some(unique) => return unique.clone(),
            None => suffix_of(Digest::of(set.uid().unwrap_or_default().as_bytes()).as_bytes()),
        },
    };
    format!("{}-{suffix}", hash(&deployment.spec.template))
}

/// A label value that distinguishes templates, for people; it is computed once, because the label is kept.
fn hash(template: &MachineTemplateSpec) -> u32 {
    let spec = &template.spec;
    let mut hasher = DefaultHasher::new();
    (&spec.version, &spec.failure_domain, &spec.infrastructure_ref).hash(&mut hasher);
    (&spec.bootstrap.config_ref, &spec.bootstrap.data_secret_name).hash(&mut hasher);
    // The upper half.
    u32::try_from(hasher.finish() >> 32).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machinedeployment::fixtures::deployment;
    use crate::machinedeployment::names::REVISION;
    use serde_json::json;

    const LIMITS: Limits = Limits { desired: 3, max_surge: 1, max_unavailable: 0 };

    fn draft() -> Basis<'static> {
        Basis::Draft("abcde".to_owned())
    }

    #[test]
    fn a_new_set_has_no_machines_and_a_name_of_its_own() {
        let deployment = deployment(&json!({"metadata": {"annotations": {"x": "y", REVISION: "1"}}}));
        let set = machine_set(&deployment, LIMITS, &draft());
        assert_eq!(set.name_any(), "md-abcde");
        assert_eq!(set.spec.replicas, Some(0));
        let unique = &set.labels()[labels::MACHINE_TEMPLATE_HASH];
        assert!(unique.ends_with("-abcde"), "{unique}");
        assert_eq!(
            &set.spec.selector.match_labels.as_ref().expect("a test value")[labels::MACHINE_TEMPLATE_HASH],
            unique
        );
        let template = set.spec.template.metadata.clone().expect("a test value");
        assert_eq!(&template.labels[labels::MACHINE_TEMPLATE_HASH], unique);
        assert!(
            !template.labels.contains_key(labels::DEPLOYMENT_NAME),
            "handed down by the MachineSet instead"
        );
        assert_eq!(set.annotations()["x"], "y");
        assert!(!set.annotations().contains_key(REVISION));
        assert_eq!(set.annotations()[MAX_REPLICAS], "4");
        assert_eq!(set.owner_references()[0].block_owner_deletion, Some(true));
    }

    #[test]
    fn adopted_sets_are_distinguished() {
        let deployment = deployment(&json!({}));
        let unique = |name: &str| {
            let set = crate::machineset::fixtures::machine_set(name, 1, &json!({}));
            machine_set(&deployment, LIMITS, &Basis::There(&set)).labels()[labels::MACHINE_TEMPLATE_HASH]
                .clone()
        };
        assert_ne!(unique("east-nodes"), unique("west-nodes"));
        assert_eq!(unique("east-nodes"), unique("east-nodes"), "nothing is written twice");
    }

    #[test]
    fn an_old_set_keeps_what_needs_new_machines() {
        let first = deployment(&json!({}));
        let old = machine_set(&first, LIMITS, &draft());
        let changed = deployment(&json!({"spec": {
            "template": {"metadata": {"labels": {"l": "1"}}, "spec": {"version": "v1.35.0", "minReadySeconds": 9}},
            "deletion": {"order": "Oldest"},
        }}));
        let set = machine_set(&changed, LIMITS, &Basis::There(&old));
        assert_eq!(set.name_any(), old.name_any());
        assert_eq!(set.spec.template.spec.version.as_deref(), Some("v1.34.0"));
        assert_eq!(set.spec.template.spec.min_ready_seconds, Some(9));
        assert_eq!(set.labels()["l"], "1");
        assert_eq!(set.labels()[labels::MACHINE_TEMPLATE_HASH], old.labels()[labels::MACHINE_TEMPLATE_HASH]);
        assert!(set.spec.deletion.is_some());
    }
}
