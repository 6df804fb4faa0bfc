//! Objects through their lives: the generic path, on built-in and custom resources.

use crate::support::{CRDS, MAPS, TestPlane, WIDGETS, eventually, map, widget, widgets};
use capstan_apiserver::{Options, Storage, User};
use serde_json::{Value, json};

#[tokio::test]
async fn a_map_is_made_changed_and_deleted() {
    let plane = TestPlane::start().await;
    let made = plane.admin.make(MAPS, &map("a")).await;
    assert_eq!(plane.admin.post(MAPS, &map("a")).await.1["reason"], "AlreadyExists");
    let path = format!("{MAPS}/a");

    // The same again changes nothing, not even the revision.
    let mut again = made.clone();
    again["metadata"].as_object_mut().unwrap().remove("managedFields");
    let (code, same) = plane.admin.put(&path, &made).await;
    assert_eq!((code, &same["metadata"]["resourceVersion"]), (200, &made["metadata"]["resourceVersion"]));

    let (_, changed) = plane.admin.merge(&path, &json!({"data": {"k": null, "l": "w"}})).await;
    assert_eq!(changed["data"], json!({"l": "w"}));
    assert_eq!(changed["metadata"]["uid"], made["metadata"]["uid"]);
    let (code, stale) = plane.admin.put(&path, &made).await;
    assert_eq!((code, &stale["reason"]), (409, &json!("Conflict")));

    let patch = json!([{"op": "add", "path": "/data/x", "value": "1"}]);
    let (code, patched) = plane.admin.call("PATCH", &path, "application/json-patch+json", &patch).await;
    assert_eq!((code, &patched["data"]), (200, &json!({"l": "w", "x": "1"})));

    assert_eq!(plane.admin.delete(&path, &Value::Null).await.1["status"], "Success");
    assert_eq!(plane.admin.get(&path).await.0, 404);
    plane.server.shutdown().await;
}

#[tokio::test]
async fn finalizers_hold_and_let_go() {
    let plane = TestPlane::start().await;
    let mut held = map("a");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    plane.admin.make(MAPS, &held).await;
    let path = format!("{MAPS}/a");
    let (code, pending) = plane.admin.delete(&path, &Value::Null).await;
    assert_eq!((code, &pending["kind"]), (200, &json!("ConfigMap")));
    assert!(pending["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(plane.admin.get(&path).await.0, 200);
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    assert_eq!(plane.admin.merge(&path, &more).await.0, 422);
    assert_eq!(plane.admin.merge(&path, &json!({"metadata": {"finalizers": null}})).await.0, 200);
    assert_eq!(plane.admin.get(&path).await.0, 404);
}

#[tokio::test]
async fn names_are_generated_and_checked() {
    let plane = TestPlane::start().await;
    let mut nameless = map("x");
    nameless["metadata"] = json!({"generateName": "a-"});
    let made = plane.admin.make(MAPS, &nameless).await;
    let name = made["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("a-") && name.len() == 7, "{name}");
    assert_eq!(plane.admin.post(MAPS, &map("Bad_Name")).await.1["reason"], "Invalid");
}

#[tokio::test]
async fn a_crd_is_served_at_once_and_goes_with_its_objects() {
    let plane = TestPlane::start().await;
    assert_eq!(plane.admin.get(WIDGETS).await.0, 404);
    let definition = plane.admin.make(CRDS, &widgets()).await;
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
    let made =
        plane.admin.make(WIDGETS, &widget("a", json!({"size": "S", "big": 9_007_199_254_740_993_i64}))).await;
    assert_eq!(made["spec"], json!({"size": "S", "big": 9_007_199_254_740_993_i64, "replicas": 1}));
    assert_eq!(made["metadata"]["generation"], 1);
    let (_, refused) = plane.admin.post(WIDGETS, &widget("b", json!({"size": "M"}))).await;
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.size");

    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    assert_eq!(plane.admin.merge(&format!("{WIDGETS}/a"), &held).await.0, 200);
    assert_eq!(plane.admin.delete(&format!("{CRDS}/widgets.example.com"), &Value::Null).await.0, 200);
    eventually("the widget is marked", || async {
        plane.admin.get(&format!("{WIDGETS}/a")).await.1["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    assert_eq!(plane.admin.post(WIDGETS, &widget("b", json!({}))).await.0, 405);
    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(plane.admin.merge(&format!("{WIDGETS}/a"), &free).await.0, 200);
    plane.admin.gone(&format!("{CRDS}/widgets.example.com")).await;
    assert_eq!(plane.admin.get(WIDGETS).await.0, 404);
}

#[tokio::test]
async fn status_and_scale_are_sides_of_their_own() {
    let plane = TestPlane::start().await;
    plane.admin.make(CRDS, &widgets()).await;
    let mut with_status = widget("a", json!({"size": "S"}));
    with_status["status"] = json!({"replicas": 9});
    let made = plane.admin.make(WIDGETS, &with_status).await;
    assert!(made.get("status").is_none());
    let path = format!("{WIDGETS}/a");
    let change = json!({"spec": {"size": "L"}, "status": {"replicas": 2}});
    let (_, written) = plane.admin.merge(&format!("{path}/status"), &change).await;
    assert_eq!((&written["spec"]["size"], &written["status"]), (&json!("S"), &json!({"replicas": 2})));
    assert_eq!(written["metadata"]["generation"], 1);
    let (_, written) = plane.admin.merge(&path, &change).await;
    assert_eq!((&written["spec"]["size"], &written["metadata"]["generation"]), (&json!("L"), &json!(2)));
    let (_, scale) = plane.admin.merge(&format!("{path}/scale"), &json!({"spec": {"replicas": 5}})).await;
    assert_eq!(
        (&scale["kind"], &scale["spec"]["replicas"], &scale["status"]["replicas"]),
        (&json!("Scale"), &json!(5), &json!(2))
    );
    assert_eq!(plane.admin.get(&path).await.1["spec"]["replicas"], 5);
}

#[tokio::test]
async fn unknown_fields_are_refused_warned_of_or_dropped() {
    let plane = TestPlane::start().await;
    let mut odd = map("a");
    odd["bogus"] = 1.into();
    let (code, refused) = plane.admin.post(&format!("{MAPS}?fieldValidation=Strict"), &odd).await;
    let message = r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "bogus""#;
    assert_eq!((code, &refused["message"]), (400, &json!(message)));
    let response = plane.admin.send("POST", &format!("{MAPS}?dryRun=All"), "application/json", &odd).await;
    assert_eq!(response.headers()["warning"], r#"299 - "unknown field \"bogus\"""#);
    assert_eq!(plane.admin.get(&format!("{MAPS}/a")).await.0, 404, "a dry run leaves nothing");
}

#[tokio::test]
async fn pages_are_of_one_moment() {
    let plane = TestPlane::start().await;
    for name in ["a", "b", "c", "d"] {
        plane.admin.make(MAPS, &map(name)).await;
    }
    let names = |list: &Value| -> Vec<String> {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| i["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let (_, first) = plane.admin.get(&format!("{MAPS}?limit=2")).await;
    assert_eq!(
        (names(&first), &first["metadata"]["remainingItemCount"]),
        (vec!["a".to_owned(), "b".to_owned()], &json!(2))
    );
    plane.admin.delete(&format!("{MAPS}/c"), &Value::Null).await;
    plane.admin.make(MAPS, &map("e")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = plane.admin.get(&format!("{MAPS}?limit=5&continue={token}")).await;
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn users_without_a_role_are_forbidden_and_roles_permit() {
    let plane = TestPlane::start().await;
    let jane = plane.caller(User::new("jane", ["team"]));
    let (code, refused) = jane.get(MAPS).await;
    let message = r#"configmaps is forbidden: User "jane" cannot list resource "configmaps" in API group "" in the namespace "default""#;
    assert_eq!((code, &refused["message"]), (403, &json!(message)));
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]});
    plane.admin.make(&format!("{rbac}/roles"), &role).await;
    let binding = json!({
        "metadata": {"name": "r"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "Group", "name": "team"}],
    });
    plane.admin.make(&format!("{rbac}/rolebindings"), &binding).await;
    assert_eq!(jane.get(MAPS).await.0, 200);
    assert_eq!(jane.get(&format!("{MAPS}/a")).await.0, 403);
    assert_eq!(jane.get("/apis").await.0, 200);
}

/// kube-apiserver compares a role as it was sent, before it fills in the UID and the time of creation.
#[tokio::test]
async fn a_role_with_more_rights_is_rejected_before_its_metadata_is_filled_in() {
    let plane = TestPlane::start().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let rbac = |name: &str, resources: &str, verbs: &[&str], group: &str| json!({"metadata": {"name": name}, "rules": [{"apiGroups": [group], "resources": [resources], "verbs": verbs}]});
    plane.admin.make(roles, &rbac("editor", "roles", &["get", "update"], "rbac.authorization.k8s.io")).await;
    let binding = json!({
        "metadata": {"name": "editor"}, "roleRef": {"kind": "Role", "name": "editor"},
        "subjects": [{"kind": "Group", "name": "team"}],
    });
    plane.admin.make(&roles.replace("/roles", "/rolebindings"), &binding).await;
    let made = plane.admin.make(roles, &rbac("r", "pods", &["get"], "")).await;
    let jane = plane.caller(User::new("jane", ["team"]));
    let path = format!("{roles}/r");

    let mut sent = rbac("r", "pods", &["get"], "");
    sent["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    let (code, refused) = jane.put(&path, &sent).await;
    assert_eq!((code, &refused["reason"]), (403, &json!("Forbidden")), "{refused}");
    sent["metadata"]["resourceVersion"] = json!("1");
    assert_eq!(jane.put(&path, &sent).await.0, 403, "rights come before the revision");
    assert_eq!(jane.put(&path, &made).await.0, 200, "an unchanged role needs no rights");
}

#[tokio::test]
async fn tables_and_metadata_on_demand() {
    let plane = TestPlane::start().await;
    plane.admin.make(CRDS, &widgets()).await;
    plane.admin.make(WIDGETS, &widget("a", json!({"size": "L"}))).await;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    plane.admin.merge(&format!("{WIDGETS}/a/status"), &ready).await;
    let ask = |accept: &'static str| {
        let mut service = plane.admin.0.clone();
        async move {
            use http_body_util::BodyExt;
            use tower_service::Service;
            let request = http::Request::get(WIDGETS).header("accept", accept).body(String::new()).unwrap();
            let response = service.call(request).await.unwrap();
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            serde_json::from_slice::<Value>(&bytes).unwrap()
        }
    };
    let table = ask("application/json;as=Table;g=meta.k8s.io;v=v1").await;
    assert_eq!(table["rows"][0]["cells"], json!(["a", "L", "True"]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let list = ask("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").await;
    assert_eq!((&list["kind"], list["items"][0].get("spec")), (&json!("PartialObjectMetadataList"), None));
}

#[tokio::test]
async fn one_event_in_two_groups() {
    let plane = TestPlane::start().await;
    let event = json!({
        "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}, "note": "hello",
        "reason": "Because", "type": "Normal", "action": "Say", "reportingController": "c", "reportingInstance": "i",
        "eventTime": "2026-01-01T00:00:00.000001Z",
    });
    plane.admin.make("/apis/events.k8s.io/v1/namespaces/default/events", &event).await;
    let selector = "fieldSelector=involvedObject.name%3Dp";
    let (_, list) = plane.admin.get(&format!("/api/v1/namespaces/default/events?{selector}")).await;
    assert_eq!(list["items"][0]["message"], "hello");
    assert_eq!((&list["apiVersion"], list["items"][0].get("apiVersion")), (&json!("v1"), None), "said once");
    assert_eq!(plane.admin.get("/api/v1/events?fieldSelector=nonsense%3Dp").await.0, 400);
}

/// What was stored must be readable, with the account of who owns its fields.
#[tokio::test]
async fn what_nests_too_deep_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options::new(Storage::Folder(folder.path().join("store")));
    let plane = TestPlane::open(options()).await;
    plane.admin.make(CRDS, &widgets()).await;
    let empty = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}});
    plane.admin.make(WIDGETS, &empty).await;
    let status = |levels: usize| {
        let deep = (0..levels).fold(json!("bottom"), |inner, _| json!({"a": inner}));
        let mut widget = empty.clone();
        widget["status"] = deep;
        widget
    };
    let path = format!("{WIDGETS}/a/status?fieldManager=m");
    for media in ["application/merge-patch+json", "application/apply-patch+yaml"] {
        let (code, status_response) = plane.admin.call("PATCH", &path, media, &status(110)).await;
        assert_eq!(code, 400, "{status_response}");
        assert!(status_response["message"].as_str().unwrap().contains("deeper"), "{status_response}");
    }
    let (code, _) = plane.admin.call("PATCH", &path, "application/apply-patch+yaml", &status(90)).await;
    assert_eq!(code, 200);
    plane.server.shutdown().await;
    drop(plane);
    let plane = TestPlane::open(options()).await;
    assert!(plane.admin.get(&format!("{WIDGETS}/a")).await.1["status"]["a"].is_object());
}
