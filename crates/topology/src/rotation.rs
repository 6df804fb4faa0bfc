//! Changes of objects and templates by content: what the topology writes is compared with what exists. A template whose
//! spec changes is replaced by a new one, so that machines are rolled out; a change of its labels or annotations is
//! written in place.
//!
//! The comparison is on fields that the topology writes. Fields that only exist, such as defaults of a provider, are no
//! difference; fields that the topology wrote before and does not want any more are one. A provider that defaults fields
//! within a list or normalizes values needs a dry run on the API server as well, which is not made here: a caller that
//! knows the difference from one uses [`settle`].

use crate::desired::Computed;
use crate::intent::{FIELD_MANAGER, intent};
use crate::names::{self, Suffixes};
use crate::object;
use crate::state::{Current, Desired, DesiredControlPlane, DesiredWorkers};
use crate::upgrade::WorkersProgress;
use serde_json::Value;
use std::collections::BTreeMap;

/// How a desired object differs from the existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// Not at all.
    None,
    /// Only in metadata.
    Metadata,
    /// In the spec.
    Spec,
}

/// Compares an object with the one that exists.
pub fn compare(current: &Value, desired: &Value) -> Difference {
    let desired = intent(desired);
    let owned = owned(current);
    let differs = |field: &str| {
        let wanted = desired.get(field).unwrap_or(&Value::Null);
        let known = current.get(field).unwrap_or(&Value::Null);
        let key = format!("f:{field}");
        !is_part_of(wanted, known)
            || owned.and_then(|owned| owned.get(&key)).is_some_and(|owned| lacks(wanted, owned))
    };
    if differs("spec") {
        Difference::Spec
    } else if differs("metadata") {
        Difference::Metadata
    } else {
        Difference::None
    }
}

/// Whether everything in the first value is in the second one, too.
fn is_part_of(wanted: &Value, known: &Value) -> bool {
    match (wanted, known) {
        (Value::Null, _) => true,
        (Value::Object(wanted), Value::Object(known)) => {
            wanted.iter().all(|(field, value)| is_part_of(value, known.get(field).unwrap_or(&Value::Null)))
        }
        (Value::Object(wanted), Value::Null) => wanted.values().all(|value| is_part_of(value, &Value::Null)),
        (Value::Array(wanted), Value::Array(known)) => {
            wanted.len() == known.len()
                && wanted.iter().zip(known).all(|(wanted, known)| is_part_of(wanted, known))
        }
        (wanted, known) => wanted == known,
    }
}

/// The fields that the topology wrote before.
fn owned(current: &Value) -> Option<&Value> {
    let entries = object::get(current, &["metadata", "managedFields"])?.as_array()?;
    let entry = entries.iter().find(|entry| {
        object::text(entry, &["manager"]) == FIELD_MANAGER
            && object::text(entry, &["operation"]) == "Apply"
            && object::text(entry, &["subresource"]).is_empty()
    });
    entry?.get("fieldsV1")
}

/// Whether a value lacks one of the owned fields or items.
fn lacks(wanted: &Value, owned: &Value) -> bool {
    owned.as_object().into_iter().flatten().any(|(key, inner)| {
        let found = match key.split_once(':') {
            Some(("f", field)) => wanted.get(field),
            Some(("k", keys)) => {
                let keys: Value = serde_json::from_str(keys).unwrap_or_default();
                wanted.as_array().and_then(|items| items.iter().find(|item| is_part_of(&keys, item)))
            }
            Some(("v", value)) => {
                let value: Value = serde_json::from_str(value).unwrap_or_default();
                wanted.as_array().and_then(|items| items.iter().find(|item| **item == value))
            }
            Some(("i", index)) => index.parse().ok().and_then(|index: usize| wanted.get(index)),
            _ => return false,
        };
        found.is_none_or(|found| lacks(found, inner))
    })
}

/// What happens to a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// It does not exist yet.
    Create,
    /// Nothing.
    Keep,
    /// Its labels or annotations change; its machines stay.
    Patch,
    /// Another template takes its place, and machines are rolled out. The old one is deleted when nothing refers to it.
    Replace {
        /// Name of the old template.
        old: String,
    },
}

/// Which template something happens to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The machines of the control plane.
    ControlPlane,
    /// The bootstrap data of a MachineDeployment, by its name in the topology.
    Bootstrap(String),
    /// The infrastructure of a MachineDeployment, by its name in the topology.
    Infrastructure(String),
}

/// Decides for every template, gives new templates their names, and refers to them in the desired objects.
///
/// Control plane and groups of workers with a pending upgrade are left out: their new templates come with the new version,
/// so that their machines are rolled out once.
pub fn rotate(
    cluster: &str,
    current: &Current,
    computed: &mut Computed,
    suffixes: &mut dyn Suffixes,
) -> BTreeMap<Place, Rotation> {
    let mut rotations = BTreeMap::new();
    for place in places(computed) {
        let known = place.in_current(current);
        let difference = known.zip(place.in_desired(&computed.desired));
        let difference = difference.map(|(known, desired)| compare(known, desired));
        let known = known.map(object::name).zip(difference);
        rotations.insert(place.clone(), settle(cluster, &place, known, &mut computed.desired, suffixes));
    }
    rotations
}

/// The templates that are written now.
pub fn places(computed: &Computed) -> Vec<Place> {
    let Computed { desired, progress } = computed;
    let has_template = desired.control_plane.machine_template.is_some();
    let control_plane = has_template && !progress.control_plane.is_pending;
    let mut places: Vec<Place> = control_plane.then_some(Place::ControlPlane).into_iter().collect();
    for (name, workers) in &desired.machine_deployments {
        if !is_waiting(name, workers, &progress.machine_deployments) {
            places.extend([Place::Infrastructure(name.clone()), Place::Bootstrap(name.clone())]);
        }
    }
    places
}

/// Decides for one template, of which the name and the difference of the existing one are known. A new template gets its
/// name, and its owner refers to it.
pub fn settle(
    cluster: &str,
    place: &Place,
    current: Option<(&str, Difference)>,
    desired: &mut Desired,
    suffixes: &mut dyn Suffixes,
) -> Rotation {
    let rotation = match current {
        None => return Rotation::Create,
        Some((_, Difference::None)) => return Rotation::Keep,
        Some((_, Difference::Metadata)) => return Rotation::Patch,
        Some((old, Difference::Spec)) => Rotation::Replace { old: old.to_string() },
    };
    let name = names::from_prefix(&place.prefix(cluster), suffixes);
    rename(place, desired, &name);
    rotation
}

/// Gives a template this name, and its owner refers to it.
pub fn rename(place: &Place, desired: &mut Desired, name: &str) {
    let name = Value::from(name);
    match place {
        Place::ControlPlane => {
            let DesiredControlPlane { object, machine_template, .. } = &mut desired.control_plane;
            if let Some(template) = machine_template {
                object::set(template, &["metadata", "name"], name);
                for path in [
                    &["spec", "machineTemplate", "spec", "infrastructureRef", "name"][..],
                    &["spec", "machineTemplate", "infrastructureRef", "name"],
                ] {
                    refer(object, path, template);
                }
            }
        }
        Place::Bootstrap(of) => {
            if let Some(DesiredWorkers { object, bootstrap, .. }) = desired.machine_deployments.get_mut(of) {
                object::set(bootstrap, &["metadata", "name"], name);
                refer(object, &["spec", "template", "spec", "bootstrap", "configRef", "name"], bootstrap);
            }
        }
        Place::Infrastructure(of) => {
            let workers = desired.machine_deployments.get_mut(of);
            if let Some(DesiredWorkers { object, infrastructure, .. }) = workers {
                object::set(infrastructure, &["metadata", "name"], name);
                refer(object, &["spec", "template", "spec", "infrastructureRef", "name"], infrastructure);
            }
        }
    }
}

impl Place {
    /// How the names of new templates begin.
    pub fn prefix(&self, cluster: &str) -> String {
        match self {
            Place::ControlPlane => format!("{cluster}-"),
            Place::Bootstrap(name) | Place::Infrastructure(name) => format!("{cluster}-{name}-"),
        }
    }

    /// The template that exists.
    pub fn in_current<'a>(&self, current: &'a Current) -> Option<&'a Value> {
        match self {
            Place::ControlPlane => current.control_plane_machines.as_ref(),
            Place::Bootstrap(name) => current.machine_deployments.get(name)?.bootstrap.as_ref(),
            Place::Infrastructure(name) => current.machine_deployments.get(name)?.infrastructure.as_ref(),
        }
    }

    /// The template that should exist.
    pub fn in_desired<'a>(&self, desired: &'a Desired) -> Option<&'a Value> {
        match self {
            Place::ControlPlane => desired.control_plane.machine_template.as_ref(),
            Place::Bootstrap(name) => Some(&desired.machine_deployments.get(name)?.bootstrap),
            Place::Infrastructure(name) => Some(&desired.machine_deployments.get(name)?.infrastructure),
        }
    }
}

/// Whether a group is not written in this reconcile.
fn is_waiting(name: &str, workers: &DesiredWorkers, progress: &WorkersProgress) -> bool {
    progress.pending_create.contains(name) || progress.pending.contains(object::name(&workers.object))
}

/// Sets the name in a reference that exists.
fn refer(object: &mut Value, path: &[&str], template: &Value) {
    if object::get(object, path).is_some() {
        object::set(object, path, Value::from(object::name(template)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::World;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn only_what_the_topology_writes_is_compared() {
        let managed = |fields: Value| {
            json!([
                {"manager": "other", "operation": "Update", "fieldsV1": {"f:spec": {"f:theirs": {}}}},
                {"manager": "capi-topology", "operation": "Apply", "fieldsV1": fields},
            ])
        };
        for (current, desired, expected) in [
            (
                json!({"spec": {"a": 1, "default": 2}, "status": {}}),
                json!({"spec": {"a": 1}}),
                Difference::None,
            ),
            (json!({"spec": {"a": 1}}), json!({"spec": {"a": 2}}), Difference::Spec),
            (json!({"spec": {}}), json!({"spec": {"a": {"b": {}}}}), Difference::None),
            (
                json!({"spec": {"l": [{"a": 1, "d": 2}]}}),
                json!({"spec": {"l": [{"a": 1}]}}),
                Difference::None,
            ),
            (json!({"spec": {"l": [1, 2]}}), json!({"spec": {"l": [1]}}), Difference::Spec),
            (
                json!({"metadata": {"labels": {"theirs": "x"}}, "spec": {"a": 1}}),
                json!({"metadata": {"labels": {"own": "x"}}, "spec": {"a": 1}}),
                Difference::Metadata,
            ),
            (
                json!({"metadata": {"labels": {"own": "x"}}, "spec": {"a": 1}}),
                json!({"metadata": {"labels": {"own": "y"}}, "spec": {"a": 2}}),
                Difference::Spec,
            ),
            (
                json!({"metadata": {"managedFields": managed(json!({"f:spec": {"f:a": {}, "f:b": {"f:c": {}}}}))},
                    "spec": {"a": 1, "b": {"c": 1}, "theirs": 1}}),
                json!({"spec": {"a": 1, "b": {}}}),
                Difference::Spec,
            ),
            (
                json!({"metadata": {"managedFields": managed(json!({"f:spec": {"f:l": {
                    "k:{\"n\":\"x\"}": {".": {}, "f:n": {}}, "k:{\"n\":\"y\"}": {".": {}, "f:n": {}}}}}))},
                    "spec": {"l": [{"n": "x"}, {"n": "y"}]}}),
                json!({"spec": {"l": [{"n": "y"}, {"n": "x"}]}}),
                Difference::Spec,
            ),
            (
                json!({"metadata": {"labels": {"old": "x"}, "managedFields": managed(json!({"f:metadata": {"f:labels": {"f:old": {}}}}))}}),
                json!({"metadata": {"labels": {}}}),
                Difference::Metadata,
            ),
        ] {
            assert_eq!(compare(&current, &desired), expected, "{current} {desired}");
        }
    }

    /// A cluster whose objects exist.
    fn running() -> World {
        let mut world = World::new();
        let computed = world.computed();
        world.apply(&computed, "v1.30.0");
        world.settle();
        world
    }

    fn rotated(world: &mut World) -> (Computed, BTreeMap<Place, Rotation>) {
        let mut computed = world.computed();
        let mut number = 1000;
        let mut suffixes = || {
            number += 1;
            number
        };
        let rotations = rotate("c", &world.current, &mut computed, &mut suffixes);
        (computed, rotations)
    }

    #[test]
    fn unchanged_templates_are_kept() {
        let (_, rotations) = rotated(&mut running());
        assert_eq!(rotations.len(), 5);
        assert!(rotations.values().all(|rotation| *rotation == Rotation::Keep), "{rotations:?}");
        let (_, rotations) = rotated(&mut World::new());
        assert!(rotations.values().all(|rotation| *rotation == Rotation::Create), "{rotations:?}");
    }

    #[test]
    fn a_changed_template_gets_a_new_name_and_its_owner_refers_to_it() {
        let mut world = running();
        let group = world.current.machine_deployments.get_mut("a").expect("a");
        let infrastructure = group.infrastructure.as_mut().expect("a template");
        infrastructure["spec"]["template"]["spec"]["size"] = json!("old");
        let old = object::name(infrastructure).to_string();
        let bootstrap = group.bootstrap.as_mut().expect("a template");
        bootstrap["metadata"]["labels"]["topology.cluster.x-k8s.io/owned"] = json!("old");
        let plane = world.current.control_plane_machines.as_mut().expect("a template");
        plane["spec"]["template"]["spec"]["size"] = json!("old");
        let (computed, rotations) = rotated(&mut world);
        assert_eq!(rotations[&Place::Infrastructure("a".into())], Rotation::Replace { old: old.clone() });
        assert_eq!(rotations[&Place::Bootstrap("a".into())], Rotation::Patch);
        assert_eq!(rotations[&Place::Infrastructure("b".into())], Rotation::Keep);
        assert!(matches!(rotations[&Place::ControlPlane], Rotation::Replace { .. }));
        let workers = &computed.desired.machine_deployments["a"];
        let name = object::name(&workers.infrastructure);
        assert_ne!(name, old);
        assert_eq!(workers.object["spec"]["template"]["spec"]["infrastructureRef"]["name"], name);
        let control_plane = &computed.desired.control_plane;
        let template = control_plane.machine_template.as_ref().expect("a template");
        assert_eq!(
            control_plane.object["spec"]["machineTemplate"]["spec"]["infrastructureRef"]["name"],
            object::name(template)
        );
        world.apply(&computed, "v1.30.0");
        let (_, rotations) = rotated(&mut world);
        assert!(rotations.values().all(|rotation| *rotation == Rotation::Keep), "{rotations:?}");
    }

    #[test]
    fn groups_with_a_pending_upgrade_wait_for_their_new_version() {
        let mut world = running();
        world.set_version("v1.31.0");
        let computed = world.computed();
        world.apply(&computed, "v1.30.0");
        let (_, rotations) = rotated(&mut world);
        // The control plane is upgrading: it is not pending any more, all workers are.
        assert_eq!(rotations.keys().collect::<Vec<_>>(), [&Place::ControlPlane]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Labels and annotations of a topology never replace a template.
        #[test]
        fn a_label_does_not_rotate_a_template(key in "[a-z]{1,8}", value in "[a-z]{1,8}") {
            let mut world = running();
            world.change_cluster(|cluster| {
                let metadata = json!({"labels": {key.clone(): value.clone()}, "annotations": {key.clone(): value}});
                let topology = &mut cluster["spec"]["topology"];
                topology["controlPlane"]["metadata"] = metadata.clone();
                for group in topology["workers"]["machineDeployments"].as_array_mut().expect("a list") {
                    group["metadata"] = metadata.clone();
                }
            });
            let (_, rotations) = rotated(&mut world);
            prop_assert!(rotations.values().all(|rotation| *rotation == Rotation::Keep), "{:?}", rotations);
        }
    }
}
