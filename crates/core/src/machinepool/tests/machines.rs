//! Which Machines there should be.

use capstan_controller::Knowledge;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::sync::Arc;

use super::{machine, node, object, pool};
use crate::machinepool::decide::machines;

fn instance(name: &str, change: &Value) -> Arc<DynamicObject> {
    let mut named = json!({"metadata": {"name": name}, "spec": {"providerID": format!("x://{name}")}});
    super::merge(&mut named, change);
    Arc::new(object("Instance", &named))
}

#[test]
fn every_infrastructure_machine_has_a_machine() {
    let nodes = Knowledge::Known(vec![node("node-a", "x://a", &json!({}))]);
    let going = json!({"metadata": {"deletionTimestamp": "2025-01-01T00:00:00Z"}});
    let infrastructure =
        [instance("a", &json!({})), instance("b", &json!({})), instance("c", &going), instance("d", &going)];
    let known = [machine("b", &json!({"spec": {"version": "v1.35.0"}})), machine("d", &json!({}))];
    let wanted = machines::wanted(&pool(&json!({})), "Instance", &infrastructure, &known, &nodes);
    let seen: Vec<_> = wanted
        .iter()
        .map(|one| {
            let version = one.desired.spec.version.clone().unwrap_or_default();
            (one.desired.name_any(), one.current.is_some(), one.desired.uid().is_some(), version)
        })
        .collect();
    let expected = [
        ("a", false, false, "v1.36.1"),
        // Its Node is not there now: the version stays.
        ("b", true, true, "v1.35.0"),
        // Nothing is made for what is being deleted, but what there is of it is kept as it should be.
        ("d", true, true, ""),
    ];
    let expected: Vec<_> =
        expected.map(|(name, known, uid, version)| (name.to_owned(), known, uid, version.to_owned())).into();
    assert_eq!(seen, expected);
}

#[test]
fn a_machine_has_what_the_pool_and_the_infrastructure_say() {
    let infrastructure = [instance("a", &json!({}))];
    let unknown = Knowledge::unknown("the list has not synced");
    let wanted = machines::wanted(&pool(&json!({})), "Instance", &infrastructure, &[], &unknown);
    let written = serde_json::to_value(&wanted[0].desired).expect("it serialises");
    assert_eq!(
        written["metadata"]["labels"],
        json!({"tier": "spot", "cluster.x-k8s.io/pool-name": "p", "cluster.x-k8s.io/cluster-name": "c"})
    );
    assert_eq!(written["metadata"]["annotations"], json!({"team": "shop"}));
    let owner = &written["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["controller"]), (&json!("MachinePool"), &json!(true)));
    assert_eq!(
        written["spec"],
        json!({"clusterName": "c", "bootstrap": {"dataSecretName": ""},
            "infrastructureRef": {"apiGroup": "i", "kind": "Instance", "name": "a"}})
    );
}

#[test]
fn only_a_version_that_a_machine_can_have_is_copied() {
    for (version, expected) in [("v1.36.1+k3s1", Some("v1.36.1+k3s1")), ("1.36.1", None), ("v1.36", None)] {
        let status = json!({"status": {"nodeInfo": {"kubeletVersion": version}}});
        let nodes = Knowledge::Known(vec![node("node-a", "x://a", &status)]);
        let infrastructure = [instance("a", &json!({}))];
        let wanted = machines::wanted(&pool(&json!({})), "Instance", &infrastructure, &[], &nodes);
        assert_eq!(wanted[0].desired.spec.version.as_deref(), expected, "{version}");
    }
}

#[test]
fn a_machine_belongs_by_its_controller_or_by_its_labels() {
    let pool = pool(&json!({}));
    let desired = machine("a", &json!({}));
    let other = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "s", "uid": "s",
        "controller": true}]);
    let plain =
        json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "c"}]);
    let elsewhere = json!({"cluster.x-k8s.io/pool-name": "q"});
    for (change, belongs, stands) in [
        (json!({}), true, true),
        (json!({"metadata": {"labels": elsewhere}}), true, true),
        (json!({"metadata": {"ownerReferences": plain}}), true, true),
        (json!({"metadata": {"ownerReferences": plain, "labels": elsewhere}}), false, false),
        (json!({"metadata": {"ownerReferences": other}}), false, false),
        (json!({"spec": {"infrastructureRef": {"name": "b"}}}), true, false),
        (json!({"spec": {"infrastructureRef": {"kind": "Other"}}}), true, false),
    ] {
        let machine = machine("a", &change);
        assert_eq!(machines::belongs(&pool, &machine), belongs, "{change}");
        assert_eq!(machines::stands_for(&pool, &machine, &desired), stands, "{change}");
    }
}

#[test]
fn a_machine_that_goes_is_not_up_to_date() {
    let condition = machines::up_to_date(&machine("a", &json!({})));
    assert_eq!((condition.status.to_string().as_str(), condition.reason.as_str()), ("True", "UpToDate"));
    let going = json!({"metadata": {"deletionTimestamp": "2025-01-01T00:00:00Z"}});
    let condition = machines::up_to_date(&machine("a", &going));
    assert_eq!((condition.status.to_string().as_str(), condition.reason.as_str()), ("False", "NotUpToDate"));
    assert_eq!(condition.message, "Machine is being deleted");
}
