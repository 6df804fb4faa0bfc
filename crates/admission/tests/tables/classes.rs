//! ClusterClasses and the Clusters that use them.

use super::objects::object;
use super::{errors, rejected, with};
use capstan_admission::{Fact, Facts, Kind, Operation, Rejection, Write, needs_of_validate, validate};
use serde_json::{Value, json};

fn cluster(name: &str) -> Value {
    with(
        object(Kind::Cluster),
        &json!({"metadata": {"name": name}, "spec": {"topology": {
            "classRef": {"name": "standard"}, "version": "v1.36.0",
            "workers": {"machineDeployments": [{"class": "small", "name": "a"}]},
        }}}),
    )
}

fn used_by(clusters: Vec<Value>) -> Facts {
    Facts { clusters: Fact::Known(clusters), ..Facts::default() }
}

#[test]
fn a_class_that_is_in_use_is_not_deleted() {
    let class = object(Kind::ClusterClass);
    let write =
        Write { kind: Kind::ClusterClass, operation: Operation::Delete, old: Some(&class), new: None };
    assert_eq!(needs_of_validate(&write).clusters_of.expect("Clusters").name, "standard");
    let delete = |clusters| validate(&write, &Facts { clusters, ..Facts::default() });
    assert_eq!(delete(Fact::Known(Vec::new())), Ok(Vec::new()));
    let names = ["a", "b", "c", "d", "e"];
    match delete(Fact::Known(names.map(cluster).to_vec())) {
        Err(Rejection::Forbidden(why)) => {
            assert!(why.ends_with("used by Clusters: n/a, n/b, n/c, and 2 more"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(delete(Fact::default()), Err(Rejection::Unknown(_))), "unknown is not none");
}

#[test]
fn changes_that_clusters_do_not_allow_are_rejected() {
    let class = object(Kind::ClusterClass);
    let in_use = used_by(vec![cluster("a")]);
    for (change, facts, expected) in [
        (json!({"spec": {"workers": null}}), &used_by(vec![]), None),
        (
            json!({"spec": {"workers": null}}),
            &in_use,
            Some("spec.workers.machineDeployments: FieldValueForbidden"),
        ),
        (
            json!({"spec": {"kubernetesVersions": ["v1.37.0"]}}),
            &in_use,
            Some("spec.kubernetesVersions: FieldValueForbidden"),
        ),
        (json!({"spec": {"kubernetesVersions": ["v1.36.0", "v1.37.0"]}}), &in_use, None),
        (
            json!({"spec": {"kubernetesVersions": ["v1.36.0", "v1.38.0"]}}),
            &in_use,
            Some("spec.kubernetesVersions[1]: FieldValueInvalid"),
        ),
        (json!({}), &Facts::default(), Some("<nil>: InternalError")),
    ] {
        let new = with(class.clone(), &change);
        let found = rejected(Kind::ClusterClass, Some(&class), &new, facts);
        assert_eq!(found, Vec::from_iter(expected), "{change}");
    }
}

#[test]
fn a_new_class_needs_no_facts() {
    let class = with(
        object(Kind::ClusterClass),
        &json!({"spec": {"variables": [{"name": "x", "required": true, "schema": {"openAPIV3Schema": {
            "type": "integer", "default": "text",
        }}}]}}),
    );
    let write =
        Write { kind: Kind::ClusterClass, operation: Operation::Create, old: None, new: Some(&class) };
    assert_eq!(needs_of_validate(&write).clusters_of, None);
    let found = errors(validate(&write, &Facts::default()));
    assert!(found.len() == 1 && found[0].starts_with("spec.variables[x]"), "{found:?}");
}
