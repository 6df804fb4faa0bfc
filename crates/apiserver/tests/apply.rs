//! Server-side apply and the account of who owns what, as clients see them.

use crate::support::{CRDS, MAPS, TestPlane, WIDGETS, widgets};
use serde_json::{Value, json};

fn data(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

#[tokio::test]
async fn owners_share_conflict_and_let_go() {
    let plane = TestPlane::start().await;
    let path = |manager: &str| format!("{MAPS}/a?fieldManager={manager}");
    let (code, refused) = plane.admin.apply(&format!("{MAPS}/a"), &data(&json!({}))).await;
    assert_eq!((code, &refused["details"]["causes"][0]["field"]), (422, &json!("fieldManager")));
    let (code, made) = plane.admin.apply(&path("one"), &data(&json!({"a": "1", "b": "2"}))).await;
    assert_eq!(code, 201);
    let (_, again) = plane.admin.apply(&path("one"), &data(&json!({"a": "1", "b": "2"}))).await;
    assert_eq!(again, made, "nothing to do, nothing done");
    assert_eq!(plane.admin.apply(&path("two"), &data(&json!({"a": "1", "c": "3"}))).await.0, 200);
    let (code, conflict) = plane.admin.apply(&path("two"), &data(&json!({"a": "9", "c": "3"}))).await;
    assert_eq!((code, &conflict["reason"]), (409, &json!("Conflict")));
    assert_eq!(conflict["message"], "Apply failed with 1 conflict: conflict with \"one\": .data.a");
    assert_eq!(conflict["details"]["causes"][0]["reason"], "FieldManagerConflict");
    let forced = format!("{}&force=true", path("two"));
    assert_eq!(plane.admin.apply(&forced, &data(&json!({"a": "9", "c": "3"}))).await.1["data"]["a"], "9");
    let (_, dropped) = plane.admin.apply(&path("one"), &data(&json!({}))).await;
    assert_eq!(dropped["data"], json!({"a": "9", "c": "3"}), "what only it owned is gone, the rest stays");
}

#[tokio::test]
async fn lists_by_key_and_sides_have_owners_of_their_own() {
    let plane = TestPlane::start().await;
    plane.admin.make(CRDS, &widgets()).await;
    let body = |part: &str| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"},
            "spec": {"parts": [{"name": part, "n": 1}]}, "status": {"ignored": true},
        })
    };
    plane.admin.apply(&format!("{WIDGETS}/a?fieldManager=one"), &body("x")).await;
    let (_, both) = plane.admin.apply(&format!("{WIDGETS}/a?fieldManager=two"), &body("y")).await;
    assert_eq!(both["spec"]["parts"], json!([{"name": "x", "n": 1}, {"name": "y", "n": 1}]));
    assert!(both.get("status").is_none());
    let status = json!({"apiVersion": "example.com/v1", "kind": "Widget", "status": {"phase": "up"}});
    let (code, written) = plane.admin.apply(&format!("{WIDGETS}/a/status?fieldManager=one"), &status).await;
    assert_eq!((code, &written["status"]), (200, &json!({"phase": "up"})));
    let entries = written["metadata"]["managedFields"].as_array().unwrap();
    let subresources: Vec<_> =
        entries.iter().map(|entry| entry["subresource"].as_str().unwrap_or_default()).collect();
    assert_eq!(subresources.iter().filter(|subresource| **subresource == "status").count(), 1);
    let (code, _) = plane.admin.apply(&format!("{WIDGETS}/none/status?fieldManager=one"), &status).await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn plain_writes_are_kept_account_of() {
    let plane = TestPlane::start().await;
    let made = plane.admin.make(&format!("{MAPS}?fieldManager=maker"), &data(&json!({"a": "1"}))).await;
    let entry = &made["metadata"]["managedFields"][0];
    assert_eq!((&entry["manager"], &entry["operation"]), (&json!("maker"), &json!("Update")));
    assert_eq!(entry["fieldsV1"], json!({"f:data": {".": {}, "f:a": {}}}));
    let (_, changed) = plane.admin.merge(&format!("{MAPS}/a"), &json!({"data": {"b": "2"}})).await;
    let managers = changed["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers[1]["manager"], "test", "named after its user agent");
    let (_, reset) =
        plane.admin.merge(&format!("{MAPS}/a"), &json!({"metadata": {"managedFields": [{}]}})).await;
    assert!(reset["metadata"].get("managedFields").is_none());
}
