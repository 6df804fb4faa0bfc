//! Owners and dependents, namespaces and their content.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::support::{MAPS, TestPlane, eventually, map};
use capstan_apiserver::{Options, Storage};
use serde_json::{Value, json};

fn owned(name: &str, owner: &Value, blocks: bool) -> Value {
    let mut object = map(name);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": blocks,
    }]);
    object
}

#[tokio::test]
async fn dependents_follow_their_owner() {
    let plane = TestPlane::start().await;
    let owner = plane.admin.make(MAPS, &map("owner")).await;
    let middle = plane.admin.make(MAPS, &owned("middle", &owner, false)).await;
    plane.admin.make(MAPS, &owned("leaf", &middle, false)).await;
    let other = plane.admin.make(MAPS, &map("other")).await;
    let mut shared = owned("shared", &owner, false);
    let more = owned("x", &other, false)["metadata"]["ownerReferences"][0].clone();
    shared["metadata"]["ownerReferences"].as_array_mut().unwrap().push(more);
    plane.admin.make(MAPS, &shared).await;
    plane.admin.delete(&format!("{MAPS}/owner"), &Value::Null).await;
    for name in ["middle", "leaf"] {
        plane.admin.gone(&format!("{MAPS}/{name}")).await;
    }
    eventually("the shared one keeps its other owner only", || async {
        let (_, shared) = plane.admin.get(&format!("{MAPS}/shared")).await;
        shared["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.len() == 1)
    })
    .await;
    // An owner that never was.
    plane.admin.make(MAPS, &owned("orphan", &owner, false)).await;
    plane.admin.gone(&format!("{MAPS}/orphan")).await;
}

#[tokio::test]
async fn in_the_foreground_the_owner_goes_last() {
    let plane = TestPlane::start().await;
    let owner = plane.admin.make(MAPS, &map("owner")).await;
    let mut held = owned("held", &owner, true);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    plane.admin.make(MAPS, &held).await;
    plane.admin.make(MAPS, &owned("free", &owner, true)).await;
    plane.admin.delete(&format!("{MAPS}/owner"), &json!({"propagationPolicy": "Foreground"})).await;
    plane.admin.gone(&format!("{MAPS}/free")).await;
    eventually("the held one is marked", || async {
        plane.admin.get(&format!("{MAPS}/held")).await.1["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    let (code, waiting) = plane.admin.get(&format!("{MAPS}/owner")).await;
    assert_eq!((code, &waiting["metadata"]["finalizers"]), (200, &json!(["foregroundDeletion"])));
    plane.admin.merge(&format!("{MAPS}/held"), &json!({"metadata": {"finalizers": null}})).await;
    plane.admin.gone(&format!("{MAPS}/owner")).await;
}

#[tokio::test]
async fn owners_in_a_circle_do_not_wait_for_each_other() {
    let plane = TestPlane::start().await;
    let first = plane.admin.make(MAPS, &map("first")).await;
    let second = plane.admin.make(MAPS, &owned("second", &first, true)).await;
    let third = plane.admin.make(MAPS, &owned("third", &second, true)).await;
    let closed = &owned("first", &third, true)["metadata"]["ownerReferences"];
    plane.admin.merge(&format!("{MAPS}/first"), &json!({"metadata": {"ownerReferences": closed}})).await;
    plane.admin.delete(&format!("{MAPS}/first"), &json!({"propagationPolicy": "Foreground"})).await;
    for name in ["first", "second", "third"] {
        plane.admin.gone(&format!("{MAPS}/{name}")).await;
    }
}

#[tokio::test]
async fn orphans_stay() {
    let plane = TestPlane::start().await;
    let owner = plane.admin.make(MAPS, &map("owner")).await;
    plane.admin.make(MAPS, &owned("child", &owner, false)).await;
    plane.admin.delete(&format!("{MAPS}/owner"), &json!({"propagationPolicy": "Orphan"})).await;
    plane.admin.gone(&format!("{MAPS}/owner")).await;
    let (code, child) = plane.admin.get(&format!("{MAPS}/child")).await;
    assert_eq!((code, child["metadata"].get("ownerReferences")), (200, None));
}

#[tokio::test]
async fn a_namespace_goes_with_its_content() {
    let plane = TestPlane::start().await;
    let maps = "/api/v1/namespaces/team/configmaps";
    let (code, missing) = plane.admin.post(maps, &map("a")).await;
    assert_eq!((code, &missing["message"]), (404, &json!(r#"namespaces "team" not found"#)));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    plane.admin.make("/api/v1/namespaces", &namespace).await;
    let mut held = map("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    plane.admin.make(maps, &held).await;
    plane.admin.make(maps, &map("free")).await;
    let (_, terminating) = plane.admin.delete("/api/v1/namespaces/team", &Value::Null).await;
    assert_eq!(terminating["status"]["phase"], "Terminating");
    plane.admin.gone(&format!("{maps}/free")).await;
    let (code, refused) = plane.admin.post(maps, &map("late")).await;
    assert_eq!((code, &refused["details"]["causes"][0]["reason"]), (403, &json!("NamespaceTerminating")));
    plane.admin.merge(&format!("{maps}/held"), &json!({"metadata": {"finalizers": null}})).await;
    plane.admin.gone("/api/v1/namespaces/team").await;
    assert_eq!(plane.admin.delete("/api/v1/namespaces/default", &Value::Null).await.0, 403);
}

#[tokio::test]
async fn events_expire() {
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    let now = Arc::new(Mutex::new("2026-06-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap()));
    let clock = Arc::clone(&now);
    let mut options = Options::new(Storage::Memory);
    assert_eq!(options.event_ttl, Duration::from_secs(3600), "as kube-apiserver");
    options.clock = Arc::new(move || *clock.lock().unwrap());
    // It is looked for expired ones as often as this asks for.
    options.event_ttl = Duration::from_millis(900);
    let plane = TestPlane::open(options).await;
    let event = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": "ConfigMap", "name": "a", "namespace": "default"}, "reason": "Said",
        })
    };
    let others = format!("{MAPS}/stays");
    plane.admin.make(MAPS, &map("stays")).await;
    plane.admin.make(EVENTS, &event("old")).await;
    assert_eq!(plane.admin.get(&format!("{EVENTS}/old")).await.0, 200);
    *now.lock().unwrap() = "2026-06-01T00:00:02Z".parse().unwrap();
    plane.admin.make(EVENTS, &event("new")).await;
    plane.admin.gone(&format!("{EVENTS}/old")).await;
    assert_eq!(plane.admin.get(&format!("{EVENTS}/new")).await.0, 200);
    assert_eq!(plane.admin.get(&others).await.0, 200);
    plane.server.shutdown().await;
}
