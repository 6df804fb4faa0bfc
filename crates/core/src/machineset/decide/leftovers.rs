//! Which clones were made for a Machine that was never made. Pure.

use capstan_api::core::{Machine, MachineSet};
use capstan_api::meta::ContractVersionedObjectReference;
use kube::ResourceExt as _;
use kube::core::ObjectMeta;

/// Something that was cloned for a Machine.
#[derive(Clone, Debug)]
pub(in crate::machineset) struct OwnedClone {
    pub(in crate::machineset) reference: ContractVersionedObjectReference,
    pub(in crate::machineset) metadata: ObjectMeta,
}

/// Whether the MachineSet owns a clone and the Machine controller has not taken it over: from then on it is no longer the
/// MachineSet's to delete. Nor is one that is being deleted.
pub(in crate::machineset) fn is_still_owned(set: &MachineSet, clone: &ObjectMeta) -> bool {
    let owners = || clone.owner_references.iter().flatten();
    clone.deletion_timestamp.is_none()
        && owners().any(|owner| Some(&owner.uid) == set.uid().as_ref())
        && owners().all(|owner| owner.kind != "Machine")
}

/// Whether one of the Machines refers to a clone.
pub(in crate::machineset) fn is_named<'a>(
    reference: &ContractVersionedObjectReference,
    machines: impl IntoIterator<Item = &'a Machine>,
) -> bool {
    machines.into_iter().any(|machine| {
        let spec = &machine.spec;
        spec.infrastructure_ref == *reference || spec.bootstrap.config_ref.as_ref() == Some(reference)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machineset::fixtures::{at, machine, machine_set};
    use serde_json::{Value, json};

    fn clone(owners: &Value) -> ObjectMeta {
        serde_json::from_value(json!({"name": "m", "ownerReferences": owners})).expect("metadata")
    }

    #[test]
    fn a_clone_is_the_sets_until_a_machine_owns_it() {
        let set = machine_set("ms", 1, &json!({}));
        let owner = |kind: &str, uid: &str| json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "name": "x", "uid": uid});
        for (case, owners, is_owned) in [
            ("the set's", json!([owner("MachineSet", "uid-ms")]), true),
            ("also the Cluster's", json!([owner("MachineSet", "uid-ms"), owner("Cluster", "uid-c")]), true),
            ("another set's", json!([owner("MachineSet", "uid-other")]), false),
            ("a Machine's", json!([owner("Machine", "uid-m")]), false),
            ("a Machine's, too", json!([owner("MachineSet", "uid-ms"), owner("Machine", "uid-m")]), false),
            ("not owned", json!([]), false),
        ] {
            assert_eq!(is_still_owned(&set, &clone(&owners)), is_owned, "{case}");
        }
        let mut deleting = clone(&json!([owner("MachineSet", "uid-ms")]));
        deleting.deletion_timestamp = Some(at(0));
        assert!(!is_still_owned(&set, &deleting), "one that is being deleted");
    }

    #[test]
    fn a_clone_is_named_by_kind_and_name() {
        let reference = |kind: &str, name: &str| ContractVersionedObjectReference {
            api_group: "infrastructure.cluster.x-k8s.io".to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        let config = reference("Config", "m");
        let machines = [machine("m").change(|m| m.spec.bootstrap.config_ref = Some(config.clone())).done()];
        assert!(is_named(&reference("Infra", "m"), &machines));
        assert!(is_named(&config, &machines));
        assert!(!is_named(&reference("Config", "n"), &machines));
        assert!(!is_named(&reference("Other", "m"), &machines), "another kind of the same name");
    }
}
