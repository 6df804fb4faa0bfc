//! Moves between two embedded planes, whole, refused, and killed at every write.

#![cfg(test)]
#![allow(clippy::needless_pass_by_value)]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use capstan_mover::{Error, MOVE, MoveEndpoint, MoveProgress, ORIGIN, from_folder, to_folder};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use capstan_testkit::crash::CrashPoint;
use support::{Stage, cluster, transfer};

/// What must be the same wherever an object lives: everything but what a plane gives it, and what the move writes.
fn content(object: &DynamicObject) -> Value {
    let mut annotations = object.metadata.annotations.clone().unwrap_or_default();
    for ours in [MOVE, ORIGIN, "cluster.x-k8s.io/paused", "clusterctl.cluster.x-k8s.io/delete-for-move"] {
        annotations.remove(ours);
    }
    let owners: Vec<(&str, &str)> =
        object.owner_references().iter().map(|owner| (owner.kind.as_str(), owner.name.as_str())).collect();
    let mut data = object.data.clone();
    data.as_object_mut().unwrap().remove("status");
    if let Some(spec) = data.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("paused");
    }
    json!({
        "labels": object.metadata.labels, "annotations": annotations, "finalizers": object.metadata.finalizers,
        "owners": owners, "data": data,
    })
}

fn contents(all: &BTreeMap<String, DynamicObject>) -> BTreeMap<String, Value> {
    all.iter().map(|(title, object)| (title.clone(), content(object))).collect()
}

const NOT_OURS: [&str; 2] = ["ConfigMap/not-ours", "Secret/not-ours"];

/// All that moved is at the target as it was, owned by what is there, awake; and nothing of it is left at the source.
async fn has_arrived(before: &BTreeMap<String, Value>, source: &Stage, target: &Stage) {
    let left: BTreeSet<String> = source.all().await.into_keys().collect();
    assert_eq!(left, NOT_OURS.map(str::to_owned).into());
    let arrived = target.all().await;
    let mut expected = before.clone();
    expected.retain(|title, _| !NOT_OURS.contains(&title.as_str()));
    assert_eq!(contents(&arrived), expected);
    let uids: BTreeSet<String> = arrived.values().filter_map(kube::ResourceExt::uid).collect();
    for (title, object) in &arrived {
        assert!(object.owner_references().iter().all(|owner| uids.contains(&owner.uid)), "{title}");
        assert!(!object.annotations().contains_key(MOVE), "{title}");
        assert!(!object.annotations().contains_key("cluster.x-k8s.io/paused"), "{title}");
        assert!(object.data["spec"].get("paused").is_none(), "{title}");
        assert!(
            object
                .data
                .get("status")
                .is_none_or(|status| status.as_object().is_some_and(serde_json::Map::is_empty))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_and_comes_back() {
    let (a, b) = (Stage::new().await, Stage::new().await);
    cluster(&a).await;
    let before = contents(&a.all().await);
    transfer(a.client.clone(), b.client.clone()).await.unwrap();
    has_arrived(&before, &a, &b).await;
    // Again there is nothing to do.
    transfer(a.client.clone(), b.client.clone()).await.unwrap();
    // At the target somebody finds out the status again, as a controller would.
    for (kind, name, status) in [
        (
            "Cluster",
            "c",
            json!({
                "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
                "conditions": [{"type": "ControlPlaneInitialized", "status": "True", "reason": "Yes", "message": "",
                    "lastTransitionTime": "2026-11-15T00:00:00Z"}],
            }),
        ),
        ("Machine", "m", json!({"nodeRef": {"name": "m"}})),
    ] {
        let patch = kube::api::Patch::Merge(json!({"status": status}));
        b.of(kind).patch_status(name, &kube::api::PatchParams::default(), &patch).await.unwrap();
    }
    for name in NOT_OURS {
        let (kind, name) = name.split_once('/').unwrap();
        a.of(kind).delete(name, &kube::api::DeleteParams::default()).await.unwrap();
        b.make(kind, name, None, json!({})).await;
    }
    transfer(b.client.clone(), a.client.clone()).await.unwrap();
    has_arrived(&before, &b, &a).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_every_write_it_goes_on() {
    for reaches in [true, false] {
        let (a, b) = (Stage::new().await, Stage::new().await);
        cluster(&a).await;
        let before = contents(&a.all().await);
        let mut deaths = 0;
        loop {
            // One more write than is lost, so that each life gets a little further.
            let crash_point = CrashPoint::new(if reaches { 1 } else { 2 }, reaches);
            let done = transfer(a.crashing_client(&crash_point), b.crashing_client(&crash_point)).await;
            nothing_is_lost(&before, &a, &b).await;
            match done {
                Ok(()) => break,
                Err(last @ Error::Request { .. }) => {
                    deaths += 1;
                    assert!(deaths < 200, "it does not get any further: {last}");
                }
                Err(other) => panic!("after {deaths} deaths: {other}"),
            }
        }
        assert!(deaths > 40, "there are more writes than {deaths}");
        has_arrived(&before, &a, &b).await;
    }
}

/// Every object is on one side at least, and no cluster is looked after on both.
async fn nothing_is_lost(before: &BTreeMap<String, Value>, a: &Stage, b: &Stage) {
    let (left, arrived) = (a.all().await, b.all().await);
    let (left, arrived) = (&left, &arrived);
    for (title, wanted) in before {
        let found: Vec<Value> =
            [left, arrived].into_iter().filter_map(|side| side.get(title)).map(content).collect();
        // What is being deleted at the source has lost its finalizers, and is whole at the target.
        assert!(found.iter().any(|found| found == wanted), "{title}: {found:?} instead of {wanted}");
    }
    let awake = [left, arrived]
        .map(|side| side.get("Cluster/c").is_some_and(|cluster| cluster.data["spec"]["paused"] != true));
    assert_ne!(awake, [true, true]);
    let awake_hosts = [left, arrived].map(|side| {
        side.get("Host/p-0").is_some_and(|host| !host.annotations().contains_key("cluster.x-k8s.io/paused"))
    });
    assert_ne!(awake_hosts, [true, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn through_a_folder_and_back() {
    let (a, b) = (Stage::new().await, Stage::new().await);
    cluster(&a).await;
    let before = contents(&a.all().await);
    let folder = tempfile::tempdir().unwrap();
    let report = |_: MoveProgress| {};
    to_folder(&MoveEndpoint::source(a.client.clone()), "default", folder.path(), &report).await.unwrap();
    // A backup takes nothing away, and wakes everything again.
    assert_eq!(contents(&a.all().await), before);
    let all = a.all().await;
    assert!(
        all["Cluster/c"].data["spec"].get("paused").is_none()
            && !all["HostPool/p"].annotations().contains_key(MOVE)
    );
    let names: BTreeSet<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names.len(), before.len() - NOT_OURS.len());
    assert!(
        names.contains("Cluster_default_c.yaml") && names.contains("Host_default_rack-1.yaml"),
        "{names:?}"
    );

    from_folder(&MoveEndpoint::target(b.client.clone()), folder.path(), &report).await.unwrap();
    for title in NOT_OURS {
        let (kind, name) = title.split_once('/').unwrap();
        a.of(kind).get(name).await.unwrap();
    }
    let arrived = b.all().await;
    let mut expected = before.clone();
    expected.retain(|title, _| !NOT_OURS.contains(&title.as_str()));
    assert_eq!(contents(&arrived), expected);
    assert!(arrived.values().all(|object| !object.annotations().contains_key(MOVE)));
    assert!(arrived["Cluster/c"].data["spec"].get("paused").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_way_through_a_folder_that_was_killed_goes_on() {
    let (a, b) = (Stage::new().await, Stage::new().await);
    cluster(&a).await;
    let before = contents(&a.all().await);
    let folder = tempfile::tempdir().unwrap();
    let report = |_: MoveProgress| {};
    let mut deaths = 0;
    // A backup that was interrupted is made again from the beginning, so each life is longer than the one before.
    for writes in 1.. {
        let crash_point = CrashPoint::new(writes, true);
        match to_folder(
            &MoveEndpoint::source(a.crashing_client(&crash_point)),
            "default",
            folder.path(),
            &report,
        )
        .await
        {
            Ok(()) => break,
            Err(Error::Request { .. }) => deaths += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(contents(&a.all().await), before);
    for _ in 0..200 {
        let crash_point = CrashPoint::new(1, true);
        match from_folder(&MoveEndpoint::target(b.crashing_client(&crash_point)), folder.path(), &report)
            .await
        {
            Ok(()) => break,
            Err(Error::Request { .. }) => deaths += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(deaths > 20, "{deaths}");
    let mut expected = before;
    expected.retain(|title, _| !NOT_OURS.contains(&title.as_str()));
    assert_eq!(contents(&b.all().await), expected);
    assert!(b.all().await.values().all(|object| !object.annotations().contains_key(MOVE)));
}

/// The reasons of a move that is refused, which must leave both sides as they were.
async fn refused(a: &Stage, b: &Stage) -> Vec<String> {
    let before = (a.all().await, b.all().await);
    let Err(Error::Refused(reasons)) = transfer(a.client.clone(), b.client.clone()).await else {
        panic!("not refused");
    };
    assert_eq!((a.all().await, b.all().await), before);
    reasons
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_must_not_begin_touches_nothing() {
    let (a, b) = (Stage::new().await, Stage::new().await);
    cluster(&a).await;

    let same = transfer(a.client.clone(), a.client.clone()).await.unwrap_err().to_string();
    assert!(same.starts_with("source and target are the same plane"), "{same}");

    a.patch("Cluster", "c", json!({"spec": {"paused": true}})).await;
    assert!(refused(&a, &b).await[0].starts_with("Cluster default/c is paused"));
    a.patch("Cluster", "c", json!({"spec": {"paused": null}})).await;

    b.make("Host", "rack-1", None, json!({"spec": {"simulated": {}}})).await;
    let reasons = refused(&a, &b).await;
    assert_eq!(
        reasons,
        ["Host default/rack-1 exists at the target and is another one: rename or delete it there"]
    );
    b.of("Host").delete("rack-1", &kube::api::DeleteParams::default()).await.unwrap();

    // Whoever asks for time gets it, and the move says whom it waited for; then it goes on.
    a.patch(
        "HostMachine",
        "m",
        json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/block-move": ""}}}),
    )
    .await;
    let blocked = transfer(a.client.clone(), b.client.clone()).await.unwrap_err().to_string();
    assert!(blocked.starts_with("HostMachine default/m still has the annotation"), "{blocked}");
    assert!(b.all().await.is_empty());
    a.patch(
        "HostMachine",
        "m",
        json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/block-move": null}}}),
    )
    .await;

    // Paused by this move, so no other may begin.
    let c = Stage::new().await;
    let elsewhere = transfer(a.client.clone(), c.client.clone()).await.unwrap_err().to_string();
    assert!(elsewhere.contains("Cluster default/c is on its way elsewhere"), "{elsewhere}");
    let before = contents(&a.all().await);
    transfer(a.client.clone(), b.client.clone()).await.unwrap();
    has_arrived(&before, &a, &b).await;
}
