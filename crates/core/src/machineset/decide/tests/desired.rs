//! What is handed down from a MachineSet, and what is not.

use super::*;
use crate::machineset::fixtures::{machine, machine_set};

fn set() -> MachineSet {
    machine_set(
        "ms",
        1,
        &json!({
            "metadata": {"labels": {labels::DEPLOYMENT_NAME: "md"}},
            "spec": {"template": {
                "metadata": {"labels": {"l": "1"}, "annotations": {"x": "y"}},
                "spec": {"version": "v1.35.0", "minReadySeconds": 7, "failureDomain": "fd",
                    "deletion": {"nodeDrainTimeoutSeconds": 5}},
            }},
        }),
    )
}

fn reference(kind: &str, name: &str) -> ContractVersionedObjectReference {
    let api_group = "infrastructure.cluster.x-k8s.io".to_owned();
    ContractVersionedObjectReference { kind: kind.to_owned(), name: name.to_owned(), api_group }
}

#[test]
fn a_new_machine_has_all_of_the_template_and_its_own_clones() {
    let clones =
        Clones { bootstrap: Some(reference("Config", "m")), infrastructure: reference("Infra", "m") };
    let made = new_machine(&set(), "m", clones);
    assert_eq!(made.spec.version.as_deref(), Some("v1.35.0"));
    assert_eq!(made.spec.infrastructure_ref.kind, "Infra");
    assert_eq!(made.finalizers(), [FINALIZER]);
    assert_eq!(made.owner_references()[0].name, "ms");
    assert_eq!(made.owner_references()[0].controller, Some(true));
    assert_eq!(made.labels()[labels::SET_NAME], "ms");
    assert_eq!(made.labels()[labels::DEPLOYMENT_NAME], "md");
    assert_eq!(made.annotations()["x"], "y");
}

#[test]
fn what_needs_a_new_machine_is_not_handed_down() {
    let current = machine("m").done();
    let wanted = synced(&set(), &current);
    assert_eq!(wanted.spec.version, current.spec.version);
    assert_eq!(wanted.spec.failure_domain, None);
    assert_eq!(wanted.spec.infrastructure_ref, current.spec.infrastructure_ref);
    assert_eq!(wanted.spec.min_ready_seconds, Some(7));
    assert_eq!(wanted.labels()["l"], "1");
    assert_eq!(wanted.uid(), current.uid());
    let wanted = updated(&set(), &current);
    assert_eq!(wanted.spec.version.as_deref(), Some("v1.35.0"));
    assert_eq!(wanted.spec.failure_domain.as_deref(), Some("fd"));
    assert_eq!(wanted.spec.infrastructure_ref, current.spec.infrastructure_ref);
}

#[test]
fn a_machine_on_its_way_out_gets_only_what_its_deletion_needs() {
    let current = machine("m")
        .deleting()
        .change(|machine| {
            machine.spec.deletion.get_or_insert_default().node_deletion_timeout_seconds = Some(10);
        })
        .done();
    let wanted = synced_while_deleting(&set(), &current);
    let deletion = wanted.spec.deletion.clone().expect("a test value");
    assert_eq!(deletion.node_drain_timeout_seconds, Some(5));
    assert_eq!(deletion.node_deletion_timeout_seconds, Some(10));
    assert_eq!(wanted.metadata, current.metadata);
}

#[test]
fn a_clone_is_the_inside_of_its_template() {
    let template: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1", "kind": "InfraTemplate",
        "metadata": {"name": "t", "labels": {"outer": "no"}},
        "spec": {"template": {"metadata": {"labels": {"inner": "yes"}}, "spec": {"size": 3}}},
    }))
    .expect("a test value");
    let reference = reference("InfraTemplate", "t");
    let clone = cloned(&template, &reference, &set(), "m", None);
    let types = clone.types.clone().expect("a test value");
    assert_eq!((&*types.api_version, &*types.kind), ("infrastructure.cluster.x-k8s.io/v1", "Infra"));
    assert_eq!(clone.data, json!({"spec": {"size": 3}}));
    assert_eq!(clone.labels()["inner"], "yes");
    assert!(!clone.labels().contains_key("outer"));
    assert_eq!(clone.labels()[labels::CLUSTER_NAME], "c");
    assert_eq!(clone.annotations()[annotations::CLONED_FROM_NAME], "t");
    assert_eq!(
        clone.annotations()[annotations::CLONED_FROM_GROUP_KIND],
        "InfraTemplate.infrastructure.cluster.x-k8s.io"
    );

    let bare = without_handed_down(&clone, &set());
    assert_eq!(bare.labels().keys().collect::<Vec<_>>(), [labels::CLUSTER_NAME, "inner"]);
    assert_eq!(bare.annotations().len(), 2, "where it comes from");
    assert_eq!(only_metadata(&clone, &set()).data, json!({}));
}
