//! Hand-offs, defaults and owners.

use capstan_controller::Next;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{cluster, found, object, pool};
use crate::external::Reading;
use crate::machinepool::decide::{defaults, ownership, provision};

#[test]
fn bootstrap_data_follows_the_provider() {
    let data = |name: &str, created: bool| {
        found(
            "Config",
            &json!({"status": {"initialization": {"dataSecretCreated": created}, "dataSecretName": name}}),
        )
    };
    let mut pool = pool(&json!({}));
    let name =
        |pool: &capstan_api::core::MachinePool| pool.spec.template.spec.bootstrap.data_secret_name.clone();
    assert!(provision::bootstrap(&mut pool, &data("first", false)).is_ok());
    assert_eq!((name(&pool), provision::data_secret_created(&pool)), (None, false));
    for secret in ["first", "second"] {
        assert!(provision::bootstrap(&mut pool, &data(secret, true)).is_ok());
        assert_eq!((name(&pool).as_deref(), provision::data_secret_created(&pool)), (Some(secret), true));
    }
    let error = provision::bootstrap(&mut pool, &data("", true)).expect_err("a name is missing");
    assert!(error.to_string().starts_with("Config p status.dataSecretName: is empty"), "{error}");
    let going = json!({"metadata": {"deletionTimestamp": "2025-01-01T00:00:00Z"}});
    for reading in [Reading::Unreadable, found("Config", &going)] {
        assert!(matches!(provision::bootstrap(&mut pool, &reading), Ok(Next::Changed)));
        assert_eq!((name(&pool).as_deref(), provision::data_secret_created(&pool)), (Some("second"), true));
    }
    assert!(matches!(provision::bootstrap(&mut pool, &Reading::Missing), Ok(Next::After(_))));
}

#[test]
fn a_secret_of_the_user_is_bootstrap_data() {
    let own =
        json!({"spec": {"template": {"spec": {"bootstrap": {"configRef": null, "dataSecretName": "mine"}}}}});
    let mut pool = pool(&own);
    assert!(provision::bootstrap(&mut pool, &Reading::Unreferenced).is_ok());
    assert!(provision::data_secret_created(&pool));
}

#[test]
fn provider_ids_and_replicas_follow_the_provider() {
    let provisioned = json!({"initialization": {"provisioned": true}});
    let with = |replicas: Value| {
        let mut status = provisioned.clone();
        status["replicas"] = replicas;
        status
    };
    let (before, none) = (json!(["x://1", "x://2"]), json!([]));
    for (because, list, status, replicas, expected) in [
        ("not provisioned", json!(["x://3"]), json!({"replicas": 1}), Some(2), json!(["x://1", "x://2"])),
        ("ready as upstream reads it", json!(["x://3"]), json!({"ready": true}), Some(2), json!(["x://3"])),
        ("another machine", json!(["x://3", ""]), with(json!(1)), Some(1), json!(["x://3"])),
        ("machines without a list", none.clone(), with(json!(2)), Some(2), before.clone()),
        ("unknown number", none.clone(), provisioned.clone(), Some(2), before.clone()),
        ("no list at all", Value::Null, with(json!(3)), Some(3), before.clone()),
        ("no machines", none.clone(), with(json!(0)), Some(0), none.clone()),
    ] {
        let mut pool = pool(&json!({"spec": {"providerIDList": before.clone()}, "status": {"replicas": 2}}));
        let infrastructure = found("Pool", &json!({"spec": {"providerIDList": list}, "status": status}));
        provision::infrastructure(&mut pool, &infrastructure).expect(because);
        assert_eq!(json!(pool.spec.provider_id_list), expected, "{because}");
        assert_eq!(pool.status.as_ref().and_then(|status| status.replicas), replicas, "{because}");
    }
}

#[test]
fn a_list_that_cannot_be_read_is_not_empty() {
    let mut pool = pool(&json!({"spec": {"providerIDList": ["x://1"]}}));
    let infrastructure = found(
        "Pool",
        &json!({"spec": {"providerIDList": "x://1"}, "status": {"ready": true, "replicas": 0}}),
    );
    let error = provision::infrastructure(&mut pool, &infrastructure).expect_err("no list");
    assert!(error.to_string().starts_with("Pool p spec.providerIDList: is not a list"), "{error}");
    assert_eq!(pool.spec.provider_id_list, ["x://1"]);
}

#[test]
fn a_pool_whose_infrastructure_is_lost_says_so() {
    let mut fresh = pool(&json!({}));
    assert!(matches!(provision::infrastructure(&mut fresh, &Reading::Missing), Ok(Next::After(_))));
    let mut up = pool(&json!({"status": {"initialization": {"infrastructureProvisioned": true}}}));
    let lost = provision::infrastructure(&mut up, &Reading::Missing).expect_err("lost");
    assert_eq!(
        lost.to_string(),
        "MachinePool p spec.template.spec.infrastructureRef: Pool p has been deleted after being provisioned"
    );
    // The flag is not kept when the provider takes it back.
    assert!(provision::infrastructure(&mut up, &found("Pool", &json!({}))).is_ok());
    assert!(!provision::provisioned(&up));
}

#[test]
fn replicas_are_filled_in_once() {
    let least = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
    let most = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
    for (change, expected) in [
        (json!({"spec": {"replicas": 7}}), 7),
        (json!({"spec": {"replicas": null}}), 1),
        (json!({"spec": {"replicas": null}, "status": {"replicas": 4}}), 4),
        (
            json!({"spec": {"replicas": null}, "status": {"replicas": 9},
                "metadata": {"annotations": {least: "2", most: "5"}}}),
            5,
        ),
    ] {
        let mut pool = pool(&change);
        defaults::fill_replicas(&mut pool).expect("a number");
        assert_eq!(pool.spec.replicas, Some(expected), "{change}");
    }
    let limits = json!({"spec": {"replicas": null}, "metadata": {"annotations": {least: "few", most: "5"}}});
    let error = defaults::fill_replicas(&mut pool(&limits)).expect_err("no number");
    assert!(error.to_string().starts_with("MachinePool n/p: metadata.annotations["), "{error}");
}

#[test]
fn the_cluster_owns_the_pool_and_the_pool_controls_its_objects() {
    let mut pool = pool(&json!({}));
    defaults::claim(&mut pool, &cluster());
    assert_eq!(pool.labels()["cluster.x-k8s.io/cluster-name"], "c");
    assert_eq!(
        pool.owner_references().iter().map(|owner| owner.kind.as_str()).collect::<Vec<_>>(),
        ["Cluster"]
    );

    let owner = |kind: &str, name: &str, controller: bool| {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": kind, "name": name, "uid": "old",
            "controller": controller})
    };
    let owned = |owners: Value| object("Pool", &json!({"metadata": {"ownerReferences": owners}}));
    for (owners, expected) in [
        (json!([]), vec!["MachinePool/pool-uid"]),
        (json!([owner("Cluster", "c", false)]), vec!["Cluster/old", "MachinePool/pool-uid"]),
        // After a restore the UID is another one.
        (json!([owner("MachinePool", "p", true)]), vec!["MachinePool/pool-uid"]),
    ] {
        let wanted = ownership::owners_with(&pool, &owned(owners)).expect("it may be owned");
        let wanted: Vec<String> =
            wanted.iter().map(|owner| format!("{}/{}", owner.kind, owner.uid)).collect();
        assert_eq!(wanted, expected);
    }
    let of_other = owned(json!([owner("MachinePool", "other", true)]));
    let error = ownership::owners_with(&pool, &of_other).expect_err("it is another pool's");
    assert!(error.to_string().contains("is controlled by MachinePool other"), "{error}");
}
