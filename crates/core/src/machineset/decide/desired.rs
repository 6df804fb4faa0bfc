//! The desired state of a Machine and of its clones. Pure.

use capstan_api::core::{Machine, MachineSet, MachineSpec};
use capstan_api::meta::{ContractVersionedObjectReference, annotations, labels};
use capstan_controller::names::label_value;
use capstan_controller::owners;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DynamicObject, TypeMeta};
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt as _};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use crate::names::machine::FINALIZER;

/// References to what was cloned for a Machine.
#[derive(Clone, Debug)]
pub(crate) struct Clones {
    pub(crate) bootstrap: Option<ContractVersionedObjectReference>,
    pub(crate) infrastructure: ContractVersionedObjectReference,
}

/// A Machine to be made.
pub(crate) fn new_machine(set: &MachineSet, name: &str, clones: Clones) -> Machine {
    let mut spec = set.spec.template.spec.clone();
    spec.cluster_name.clone_from(&set.spec.cluster_name);
    spec.bootstrap.config_ref = clones.bootstrap;
    spec.infrastructure_ref = clones.infrastructure;
    let mut machine = Machine::new(name, spec);
    machine.metadata = ObjectMeta { finalizers: Some(vec![FINALIZER.to_owned()]), ..metadata(set, name) };
    machine
}

/// A Machine as it should be now: what the template hands down in place, and otherwise as it is.
pub(crate) fn synced(set: &MachineSet, current: &Machine) -> Machine {
    let mut spec = set.spec.template.spec.clone();
    spec.cluster_name.clone_from(&set.spec.cluster_name);
    spec.bootstrap.config_ref.clone_from(&current.spec.bootstrap.config_ref);
    spec.infrastructure_ref.clone_from(&current.spec.infrastructure_ref);
    spec.version.clone_from(&current.spec.version);
    spec.failure_domain.clone_from(&current.spec.failure_domain);
    let name = current.name_any();
    let mut finalizers = current.finalizers().to_vec();
    if !finalizers.iter().any(|present| present == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    let mut machine = Machine::new(&name, spec);
    machine.metadata =
        ObjectMeta { uid: current.uid(), finalizers: Some(finalizers), ..metadata(set, &name) };
    machine
}

/// A Machine as its update in place makes it: also what cannot be handed down.
pub(crate) fn updated(set: &MachineSet, current: &Machine) -> Machine {
    let mut machine = synced(set, current);
    let template = &set.spec.template.spec;
    machine.spec.version.clone_from(&template.version);
    machine.spec.failure_domain.clone_from(&template.failure_domain);
    machine
}

/// A Machine on its way out as it should be now: only what its deletion depends on is handed down.
pub(crate) fn synced_while_deleting(set: &MachineSet, current: &Machine) -> Machine {
    let MachineSpec { readiness_gates, deletion, min_ready_seconds, taints, .. } =
        set.spec.template.spec.clone();
    let mut machine = current.clone();
    // What is unset was filled in when the Machine was made, and stays.
    let kept = current.spec.deletion.as_ref().and_then(|kept| kept.node_deletion_timeout_seconds);
    machine.spec.deletion = match (deletion, kept) {
        (None, None) => None,
        (deletion, kept) => {
            let mut deletion = deletion.unwrap_or_default();
            deletion.node_deletion_timeout_seconds = deletion.node_deletion_timeout_seconds.or(kept);
            Some(deletion)
        }
    };
    machine.spec.readiness_gates = readiness_gates;
    machine.spec.min_ready_seconds = min_ready_seconds;
    machine.spec.taints = taints;
    machine
}

fn metadata(set: &MachineSet, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: set.namespace(),
        labels: Some(machine_labels(set)),
        annotations: Some(machine_annotations(set)),
        owner_references: controller(set).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

/// A reference to `owner` as the controller, which foreground deletion waits for.
pub(crate) fn controller<K: Resource<DynamicType = ()>>(owner: &K) -> Option<OwnerReference> {
    owners::controller(owner).map(|owner| OwnerReference { block_owner_deletion: Some(true), ..owner })
}

/// Labels of the Machines of a MachineSet, and of what is cloned for them.
pub(crate) fn machine_labels(set: &MachineSet) -> BTreeMap<String, String> {
    let mut all = set.spec.template.metadata.as_ref().map(|m| m.labels.clone()).unwrap_or_default();
    all.insert(labels::SET_NAME.to_owned(), label_value(&set.name_any()));
    if let Some(deployment) = set.labels().get(labels::DEPLOYMENT_NAME) {
        all.insert(labels::DEPLOYMENT_NAME.to_owned(), deployment.clone());
    }
    all
}

/// Annotations of the Machines of a MachineSet, and of what is cloned for them.
pub(crate) fn machine_annotations(set: &MachineSet) -> BTreeMap<String, String> {
    set.spec.template.metadata.as_ref().map(|metadata| metadata.annotations.clone()).unwrap_or_default()
}

/// What the kind of a template is a template of.
pub(crate) fn cloned_kind(template: &str) -> &str {
    template.strip_suffix("Template").unwrap_or(template)
}

/// A copy of `template` for the Machine `name`: all that is in its `spec.template`, with where it comes from.
pub(crate) fn cloned(
    template: &DynamicObject,
    reference: &ContractVersionedObjectReference,
    set: &MachineSet,
    name: &str,
    owner: Option<OwnerReference>,
) -> DynamicObject {
    let inner = template.data.pointer("/spec/template").cloned().unwrap_or_else(|| json!({}));
    let map = |pointer: &str| -> BTreeMap<String, String> {
        inner.pointer(pointer).and_then(|map| serde_json::from_value(map.clone()).ok()).unwrap_or_default()
    };
    let mut all_labels = map("/metadata/labels");
    all_labels.extend(machine_labels(set));
    all_labels.insert(labels::CLUSTER_NAME.to_owned(), set.spec.cluster_name.clone());
    let mut all_annotations = map("/metadata/annotations");
    all_annotations.extend(machine_annotations(set));
    all_annotations.extend(cloned_from(reference));
    let api_version = template.types.as_ref().map(|types| types.api_version.clone()).unwrap_or_default();
    let mut data = inner;
    if let Some(fields) = data.as_object_mut() {
        for field in ["metadata", "apiVersion", "kind"] {
            fields.remove(field);
        }
    }
    DynamicObject {
        types: Some(TypeMeta { api_version, kind: cloned_kind(&reference.kind).to_owned() }),
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: set.namespace(),
            labels: Some(all_labels),
            annotations: Some(all_annotations),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data,
    }
}

/// Annotations that say which template an object was cloned from.
pub(crate) fn cloned_from(template: &ContractVersionedObjectReference) -> BTreeMap<String, String> {
    BTreeMap::from([
        (annotations::CLONED_FROM_NAME.to_owned(), template.name.clone()),
        (annotations::CLONED_FROM_GROUP_KIND.to_owned(), format!("{}.{}", template.kind, template.api_group)),
    ])
}

/// The part of a clone that is not handed down in place: all but the labels and annotations of the MachineSet's
/// template. Those of the clone's own template stay with it, and the label of its cluster, which never changes: a clone has it
/// from its beginning.
pub(crate) fn without_handed_down(clone: &DynamicObject, set: &MachineSet) -> DynamicObject {
    let mut bare = clone.clone();
    let (handed_down, annotations) = (machine_labels(set), machine_annotations(set));
    let stays = |key: &str| key == labels::CLUSTER_NAME || !handed_down.contains_key(key);
    bare.metadata.labels.get_or_insert_default().retain(|key, _| stays(key));
    bare.metadata.annotations.get_or_insert_default().retain(|key, _| !annotations.contains_key(key));
    bare
}

/// The part of a clone that is handed down in place.
pub(crate) fn only_metadata(current: &DynamicObject, set: &MachineSet) -> DynamicObject {
    DynamicObject {
        types: current.types.clone(),
        metadata: ObjectMeta {
            name: Some(current.name_any()),
            namespace: current.namespace(),
            uid: current.uid(),
            labels: Some(machine_labels(set)),
            annotations: Some(machine_annotations(set)),
            ..ObjectMeta::default()
        },
        data: Value::Object(serde_json::Map::new()),
    }
}

/// What a clone of a template is called.
pub(crate) fn clone_reference(
    template: &ContractVersionedObjectReference,
    name: &str,
) -> ContractVersionedObjectReference {
    ContractVersionedObjectReference {
        kind: cloned_kind(&template.kind).to_owned(),
        name: name.to_owned(),
        api_group: template.api_group.clone(),
    }
}

#[cfg(test)]
#[path = "tests/desired.rs"]
mod tests;
