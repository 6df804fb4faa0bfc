//! Hand-offs, owners and phases.

use capstan_api::core::{Machine, MachinePhase};
use capstan_controller::Next;
use jiff::SignedDuration;
use kube::ResourceExt as _;
use serde_json::json;

use super::{NOW, cluster, found, healthy_node, machine, object, observed, plain};
use crate::external::Reading;
use crate::machine::decide::{ownership, provision};
use crate::machine::status;

#[test]
fn bootstrap_data_is_taken_over_once_it_is_there() {
    let mut machine = plain();
    let named = json!({"status": {"dataSecretName": "data"}});
    assert!(provision::bootstrap(&mut machine, &found(&named)).is_ok());
    assert_eq!(machine.spec.bootstrap.data_secret_name, None, "not before the provider says so");
    let nameless = json!({"status": {"initialization": {"dataSecretCreated": true}}});
    let error = provision::bootstrap(&mut machine, &found(&nameless)).expect_err("a name is missing");
    assert!(error.to_string().starts_with("Config m status.dataSecretName: is empty"), "{error}");
    let done = json!({"status": {"initialization": {"dataSecretCreated": true}, "dataSecretName": "data"}});
    assert!(provision::bootstrap(&mut machine, &found(&done)).is_ok());
    assert_eq!(machine.spec.bootstrap.data_secret_name.as_deref(), Some("data"));
    assert!(provision::data_secret_created(&machine));
    let missing = provision::bootstrap(&mut plain(), &Reading::Missing);
    assert!(matches!(missing, Ok(Next::After(_))), "{missing:?}");
}

#[test]
fn infrastructure_is_taken_over_with_its_identity() {
    let mut machine = plain();
    let without_id = json!({"status": {"initialization": {"provisioned": true}}});
    assert!(provision::infrastructure(&mut machine, &found(&without_id)).is_ok());
    assert!(!provision::provisioned(&machine), "an identity is needed too");
    let done = json!({"spec": {"providerID": "x://1"}, "status": {"initialization": {"provisioned": true},
        "addresses": [{"type": "Hostname", "address": "a"}], "failureDomain": "f"}});
    assert!(provision::infrastructure(&mut machine, &found(&done)).is_ok());
    assert!(provision::provisioned(&machine));
    assert_eq!(machine.spec.provider_id.as_deref(), Some("x://1"));
    let status = machine.status.clone().expect("a status");
    assert_eq!((status.addresses.len(), status.failure_domain.as_deref()), (1, Some("f")));

    let lost = provision::infrastructure(&mut machine, &Reading::Missing).expect_err("lost");
    assert_eq!(
        lost.to_string(),
        "Machine m spec.infrastructureRef: Host m has been deleted after being provisioned"
    );
    assert!(matches!(provision::infrastructure(&mut plain(), &Reading::Missing), Ok(Next::After(_))));
}

#[test]
fn addresses_follow_the_infrastructure_after_it_was_provisioned() {
    let at = |addresses: serde_json::Value| {
        let mut status = json!({"initialization": {"provisioned": true}});
        if !addresses.is_null() {
            status["addresses"] = addresses;
        }
        found(&json!({"spec": {"providerID": "x://1"}, "status": status}))
    };
    let address = |text: &str| json!([{"type": "InternalIP", "address": text}]);
    let mut machine = plain();
    for (said, kept) in [
        (address("10.0.0.1"), "10.0.0.1"),
        (address("10.0.0.2"), "10.0.0.2"),
        (json!(null), "10.0.0.2"),
        (json!([]), "10.0.0.2"),
    ] {
        assert!(provision::infrastructure(&mut machine, &at(said.clone())).is_ok());
        let addresses = machine.status.clone().expect("a status").addresses;
        assert_eq!(addresses.iter().map(|it| it.address.as_str()).collect::<Vec<_>>(), [kept], "{said}");
    }
}

#[test]
fn certificates_expire_as_the_annotation_says() {
    let key = "machine.cluster.x-k8s.io/certificates-expiry";
    let of_config = found(&json!({"metadata": {"name": "m", "annotations": {key: "2026-01-01T00:00:00Z"}}}));
    let expiry = |machine: &Machine| {
        machine.status.as_ref().and_then(|it| it.certificates_expiry_date.clone()).map(|it| it.0.to_string())
    };
    let label = json!({"cluster.x-k8s.io/control-plane": ""});
    let mut own =
        machine(&json!({"labels": label, "annotations": {key: "2027-01-01T00:00:00Z"}}), &json!({}));
    assert!(provision::certificates(&mut own, &of_config).is_ok());
    assert_eq!(expiry(&own).as_deref(), Some("2027-01-01T00:00:00Z"));
    let mut other = machine(&json!({"labels": label}), &json!({}));
    assert!(provision::certificates(&mut other, &of_config).is_ok());
    assert_eq!(expiry(&other).as_deref(), Some("2026-01-01T00:00:00Z"));
    assert!(provision::certificates(&mut other, &Reading::Missing).is_ok());
    assert_eq!(expiry(&other), None);
    let mut nonsense = machine(&json!({"labels": label, "annotations": {key: "soon"}}), &json!({}));
    assert!(provision::certificates(&mut nonsense, &Reading::Missing).is_err());
    let mut worker = plain();
    assert!(provision::certificates(&mut worker, &of_config).is_ok());
    assert_eq!(expiry(&worker), None);
}

#[test]
fn only_a_machine_that_stands_alone_is_adopted() {
    let controller =
        json!([{"apiVersion": "x/v1", "kind": "MachineSet", "name": "s", "uid": "s", "controller": true}]);
    for (metadata, adopted) in [
        (json!({}), true),
        (json!({"ownerReferences": controller}), false),
        (json!({"labels": {"cluster.x-k8s.io/set-name": "s"}}), false),
        (json!({"labels": {"cluster.x-k8s.io/pool-name": "s"}}), false),
        (json!({"labels": {"cluster.x-k8s.io/control-plane-name": "s"}}), false),
        (json!({"labels": {"cluster.x-k8s.io/control-plane": ""}}), true),
    ] {
        let mut machine = machine(&metadata, &json!({}));
        ownership::set_owner_and_label(&mut machine, &cluster(false));
        let has_owner = machine.owner_references().iter().any(|owner| owner.kind == "Cluster");
        assert_eq!(has_owner, adopted, "{metadata}");
        assert_eq!(machine.labels()["cluster.x-k8s.io/cluster-name"], "c");
    }
}

#[test]
fn the_machine_takes_the_place_of_the_creator() {
    let owner = |api: &str, kind: &str| json!({"apiVersion": api, "kind": kind, "name": "o", "uid": "o"});
    let made = object(&json!({"metadata": {"name": "m", "ownerReferences": [
        owner("cluster.x-k8s.io/v1beta1", "MachineSet"), owner("p/v1", "Plane"), owner("other/v1", "Keeper"),
    ]}}));
    let kinds = |machine: &Machine| -> Vec<String> {
        ownership::owners_with(machine, &cluster(true), &made).into_iter().map(|owner| owner.kind).collect()
    };
    assert_eq!(kinds(&plain()), ["Plane", "Keeper", "Machine"]);
    let of_control_plane = machine(&json!({"labels": {"cluster.x-k8s.io/control-plane": ""}}), &json!({}));
    assert_eq!(kinds(&of_control_plane), ["Keeper", "Machine"]);
    let owners = ownership::owners_with(&plain(), &cluster(true), &made);
    assert_eq!(owners.last().and_then(|owner| owner.controller), Some(true));
}

#[test]
fn phases_follow_the_hand_offs() {
    let created = json!({"initialization": {"bootstrapDataSecretCreated": true}});
    let provisioned = json!({"bootstrapDataSecretCreated": true, "infrastructureProvisioned": true});
    let running = json!({"initialization": provisioned, "nodeRef": {"name": "n"}});
    let deleted = json!({"deletionTimestamp": "2025-01-01T00:00:00Z"});
    let updating =
        json!({"annotations": {"in-place-updates.internal.cluster.x-k8s.io/update-in-progress": ""}});
    for (metadata, status, has_id, phase) in [
        (json!({}), json!({}), false, MachinePhase::Pending),
        (json!({}), created, false, MachinePhase::Provisioning),
        (json!({}), json!({"initialization": provisioned}), true, MachinePhase::Provisioned),
        (json!({}), running.clone(), true, MachinePhase::Running),
        (updating, running.clone(), true, MachinePhase::Updating),
        (deleted, running, true, MachinePhase::Deleting),
    ] {
        let mut machine = machine(&metadata, &status);
        machine.spec.provider_id = has_id.then(|| "x".to_owned());
        status::update(&mut machine, &observed(), &healthy_node(), None, NOW);
        let status = machine.status.clone().expect("a status");
        assert_eq!(status.phase, Some(phase));
        assert_eq!(status.last_updated.map(|time| time.0), Some(NOW));
        status::update(&mut machine, &observed(), &healthy_node(), None, NOW + SignedDuration::from_secs(9));
        assert_eq!(
            machine.status.and_then(|it| it.last_updated).map(|it| it.0),
            Some(NOW),
            "{phase:?} is not new"
        );
    }
}
