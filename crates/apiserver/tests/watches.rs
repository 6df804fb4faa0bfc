//! Watches: order, selection, resumption, expiry, shutdown.

use crate::support::{MAPS, TestPlane, map};
use capstan_apiserver::{Options, Storage};
use serde_json::{Value, json};

fn pair(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[tokio::test]
async fn what_happens_is_seen_in_order() {
    let plane = TestPlane::start().await;
    plane.admin.make(MAPS, &map("a")).await;
    let mut watch = plane.admin.watch(&format!("{MAPS}?watch=1")).await;
    assert_eq!(watch.short().await, pair("ADDED", "a"));
    plane.admin.merge(&format!("{MAPS}/a"), &json!({"data": {"k": "2"}})).await;
    plane.admin.make("/api/v1/namespaces/kube-system/configmaps", &map("elsewhere")).await;
    plane.admin.delete(&format!("{MAPS}/a"), &Value::Null).await;
    assert_eq!(watch.short().await, pair("MODIFIED", "a"));
    let gone = watch.next().await.unwrap();
    assert_eq!((&gone["type"], &gone["object"]["data"]["k"]), (&json!("DELETED"), &json!("2")));
    let revision: u64 = gone["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert_eq!(revision, plane.server.revision());
}

#[tokio::test]
async fn a_selector_makes_its_own_story() {
    let plane = TestPlane::start().await;
    let mut watch = plane.admin.watch(&format!("{MAPS}?watch=1&labelSelector=x%3D1")).await;
    plane.admin.make(MAPS, &map("a")).await;
    for value in ["1", "1", "2"] {
        let change = json!({"metadata": {"labels": {"x": value}}, "data": {"n": value}});
        plane.admin.merge(&format!("{MAPS}/a"), &change).await;
    }
    plane.admin.merge(&format!("{MAPS}/a"), &json!({"metadata": {"labels": {"x": "1", "y": "1"}}})).await;
    assert_eq!(watch.short().await, pair("ADDED", "a"));
    assert_eq!(watch.short().await, pair("DELETED", "a"));
    assert_eq!(watch.short().await, pair("ADDED", "a"));
}

#[tokio::test]
async fn a_watch_resumes_or_fails_with_an_expired_revision() {
    let plane = TestPlane::open(Options { history: 4, ..Options::new(Storage::Memory) }).await;
    let made = plane.admin.make(MAPS, &map("a")).await;
    let revision = made["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    plane.admin.make(MAPS, &map("b")).await;
    let path = format!("{MAPS}?watch=1&resourceVersion={revision}");
    assert_eq!(plane.admin.watch(&path).await.short().await, pair("ADDED", "b"));
    for name in ["c", "d", "e", "f"] {
        plane.admin.make(MAPS, &map(name)).await;
    }
    let mut late = plane.admin.watch(&path).await;
    let error = late.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(error["object"]["reason"], "Expired");
    assert!(late.next().await.is_none(), "the stream ends");
}

#[tokio::test]
async fn a_watch_list_says_where_the_list_ends() {
    let plane = TestPlane::start().await;
    plane.admin.make(MAPS, &map("a")).await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = plane.admin.watch(&format!("{MAPS}?{query}")).await;
    assert_eq!(watch.short().await, pair("ADDED", "a"));
    let end = watch.next().await.unwrap();
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["kind"], "ConfigMap");
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(plane.admin.get(&format!("{MAPS}?watch=1&sendInitialEvents=true")).await.0, 422);
}

#[tokio::test]
async fn time_and_shutdown_end_it_with_a_bookmark() {
    let plane = TestPlane::start().await;
    let mut short =
        plane.admin.watch(&format!("{MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=1")).await;
    assert_eq!(short.next().await.unwrap()["type"], "BOOKMARK");
    assert!(short.next().await.is_none());
    // Longer than any clock counts.
    let endless = format!("{MAPS}?watch=1&allowWatchBookmarks=1&timeoutSeconds={}", u64::MAX);
    let mut open = plane.admin.watch(&endless).await;
    plane.server.shutdown().await;
    assert_eq!(open.next().await.unwrap()["type"], "BOOKMARK");
    assert!(open.next().await.is_none());
    assert_eq!(plane.admin.post(MAPS, &map("a")).await.0, 503);
}
