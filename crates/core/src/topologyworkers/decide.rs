//! Which templates are not used any more. Pure.

use capstan_api::core::{MachineDeployment, MachineSet, MachineTemplateSpec};
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_topology::metadata::OWNED;
use std::collections::{BTreeMap, HashSet};

/// Whether the labels are those of an object of a topology.
pub(super) fn is_of_topology(labels: &BTreeMap<String, String>) -> bool {
    labels.contains_key(OWNED)
}

/// The templates that MachineDeployments and MachineSets refer to, apart from those that are being deleted.
pub(super) fn in_use<'a>(
    deployments: &'a [MachineDeployment],
    sets: &'a [MachineSet],
) -> HashSet<&'a ContractVersionedObjectReference> {
    let sets = sets.iter().filter(|set| set.metadata.deletion_timestamp.is_none());
    let deployments = deployments.iter().filter(|one| one.metadata.deletion_timestamp.is_none());
    let of_sets = sets.map(|set| &set.spec.template);
    of_sets.chain(deployments.map(|one| &one.spec.template)).flat_map(references).collect()
}

/// The references of a template of machines that are not in use.
pub(super) fn unused(
    template: &MachineTemplateSpec,
    in_use: &HashSet<&ContractVersionedObjectReference>,
) -> Vec<ContractVersionedObjectReference> {
    references(template).filter(|reference| !in_use.contains(reference)).cloned().collect()
}

fn references(template: &MachineTemplateSpec) -> impl Iterator<Item = &ContractVersionedObjectReference> {
    let spec = &template.spec;
    spec.bootstrap.config_ref.iter().chain([&spec.infrastructure_ref])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machineset::fixtures::machine_set;
    use serde_json::json;

    fn set(bootstrap: &str, infrastructure: &str, is_deleting: bool) -> MachineSet {
        let reference = |kind: &str, name: &str| ContractVersionedObjectReference {
            api_group: "g".to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        let mut set = machine_set("ms", 1, &json!({}));
        let spec = &mut set.spec.template.spec;
        spec.bootstrap.config_ref = Some(reference("BootTemplate", bootstrap));
        spec.infrastructure_ref = reference("MachineTemplate", infrastructure);
        if is_deleting {
            set.metadata.deletion_timestamp = Some(crate::machineset::fixtures::at(0));
        }
        set
    }

    #[test]
    fn templates_are_used_by_what_stays() {
        let leaving = set("b1", "i1", true);
        for (others, expected) in [
            (vec![], vec!["b1", "i1"]),
            (vec![set("b1", "i2", false)], vec!["i1"]),
            (vec![set("b1", "i1", true)], vec!["b1", "i1"]),
            (vec![set("b2", "i2", false), set("b1", "i1", false)], vec![]),
        ] {
            let in_use = in_use(&[], &others);
            let unused = unused(&leaving.spec.template, &in_use);
            let names: Vec<&str> = unused.iter().map(|reference| reference.name.as_str()).collect();
            assert_eq!(names, expected);
        }
        let deployment = |deletion: Option<&str>| -> MachineDeployment {
            serde_json::from_value(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
                "metadata": {"name": "md", "deletionTimestamp": deletion},
                "spec": {"clusterName": "c", "selector": {}, "template": leaving.spec.template},
            }))
            .expect("a MachineDeployment")
        };
        let (kept, leaves) = (deployment(None), deployment(Some("2026-01-01T00:00:00Z")));
        assert!(unused(&leaving.spec.template, &in_use(&[kept], &[])).is_empty());
        assert_eq!(unused(&leaving.spec.template, &in_use(&[leaves], &[])).len(), 2);
    }

    #[test]
    fn the_label_marks_objects_of_a_topology() {
        assert!(is_of_topology(&BTreeMap::from([(OWNED.to_owned(), String::new())])));
        assert!(!is_of_topology(&BTreeMap::new()));
    }
}
