//! Webhooks that have a say in writes.

use crate::support::{CRDS, MAPS, TestPlane, map, webhook::Webhook, widget, widgets};
use base64::{Engine, engine::general_purpose::STANDARD};
use http_body_util::BodyExt;
use serde_json::{Value, json};

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// `/add/x` adds the key x to a map, `/see` counts the keys into one, `/deny` refuses what is called "no".
fn answer(path: &str, request: &Value) -> Value {
    let patch = |steps: Value| json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(steps.to_string())});
    if let Some(key) = path.strip_prefix("/add/") {
        return patch(json!([{"op": "add", "path": format!("/data/{key}"), "value": key}]));
    }
    match path {
        "/see" => {
            let count =
                request["object"]["data"].as_object().unwrap().keys().filter(|key| *key != "seen").count();
            patch(json!([{"op": "add", "path": "/data/seen", "value": count.to_string()}]))
        }
        "/warn" => json!({"allowed": true, "warnings": ["mind the gap"]}),
        "/move" => patch(json!([{"op": "replace", "path": "/metadata/name", "value": "other"}])),
        "/nonsense" => json!({"allowed": true, "uid": "another"}),
        _ if request["name"] == "no" => {
            json!({"allowed": false, "status": {"code": 403, "reason": "Forbidden", "message": "not this"}})
        }
        _ => json!({"allowed": true}),
    }
}

fn hook(name: &str, config: &Value) -> Value {
    json!({
        "name": format!("{name}.example.com"), "clientConfig": config, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    })
}

fn configuration(name: &str, hooks: &[Value]) -> Value {
    json!({"metadata": {"name": name}, "webhooks": hooks})
}

#[tokio::test]
async fn objects_are_changed_in_order_and_once_more_if_wanted() {
    let server = Webhook::start(answer).await;
    let plane = TestPlane::start().await;
    let mut see = hook("see", &server.client_config("/see"));
    see["reinvocationPolicy"] = "IfNeeded".into();
    let hooks =
        [see, hook("add", &server.client_config("/add/b")), hook("move", &server.client_config("/move"))];
    let made = plane.admin.make(MUTATING, &configuration("a", &hooks)).await;
    assert_eq!(made["webhooks"][1]["timeoutSeconds"], 10);
    assert_eq!(made["webhooks"][1]["rules"][0]["scope"], "*");
    let made = plane.admin.make(MAPS, &map("m")).await;
    assert_eq!(made["data"], json!({"k": "v", "b": "b", "seen": "2"}), "seen again after the other");
    assert_eq!(made["metadata"]["name"], "m");
    let asked: Vec<String> = server.asked().into_iter().map(|(path, _)| path).collect();
    assert_eq!(asked, ["/see", "/add/b", "/move", "/see"]);
    let (_, patched) = plane.admin.merge(&format!("{MAPS}/m"), &json!({"data": {"b": null, "c": "1"}})).await;
    assert_eq!(patched["data"], json!({"k": "v", "b": "b", "c": "1", "seen": "3"}));
    let (path, request) = server.asked().remove(0);
    assert_eq!((path.as_str(), &request["operation"]), ("/see", &json!("UPDATE")));
    assert_eq!(request["oldObject"]["data"]["seen"], "2");
    assert_eq!(request["userInfo"]["username"], "kubernetes-admin");
    assert_eq!(request["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!(request["options"]["kind"], "UpdateOptions");
    assert_eq!(
        plane.admin.make("/api/v1/namespaces", &json!({"metadata": {"name": "x"}})).await["kind"],
        "Namespace"
    );
    assert!(server.asked().is_empty(), "no rule names namespaces");
}

#[tokio::test]
async fn what_is_refused_is_not_done() {
    let server = Webhook::start(answer).await;
    let plane = TestPlane::start().await;
    let hooks = [hook("warn", &server.client_config("/warn")), hook("deny", &server.client_config("/deny"))];
    plane.admin.make(MAPS, &map("no")).await;
    plane.admin.make(VALIDATING, &configuration("a", &hooks)).await;
    let (code, refused) = plane.admin.merge(&format!("{MAPS}/no"), &json!({"data": {"x": "y"}})).await;
    assert_eq!((code, &refused["reason"]), (403, &json!("Forbidden")));
    assert_eq!(refused["message"], "admission webhook \"deny.example.com\" denied the request: not this");
    assert_eq!(plane.admin.delete(&format!("{MAPS}/no"), &Value::Null).await.0, 403);
    assert_eq!(plane.admin.get(&format!("{MAPS}/no")).await.0, 200);
    let response = plane.admin.send("POST", MAPS, "application/json", &map("yes")).await;
    assert_eq!(response.status(), 201);
    assert_eq!(response.headers()["warning"], "299 - \"mind the gap\"");
    response.into_body().collect().await.unwrap();
    // A configuration can always be mended.
    let everything =
        json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    let (code, _) = plane.admin.merge(&format!("{VALIDATING}/a"), &json!({"webhooks": [{
        "name": "down.example.com", "clientConfig": {"url": "https://127.0.0.1:1"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "rules": everything,
    }]})).await;
    assert_eq!(code, 200);
    let (code, failed) = plane.admin.post(MAPS, &map("z")).await;
    assert!(
        code == 500 && failed["message"].as_str().unwrap().contains("failed calling webhook"),
        "{failed}"
    );
    assert_eq!(plane.admin.delete(&format!("{VALIDATING}/a"), &Value::Null).await.0, 200);
    plane.admin.make(MAPS, &map("z")).await;
}

#[tokio::test]
async fn who_is_asked() {
    let server = Webhook::start(answer).await;
    let plane = TestPlane::start().await;
    let with = |name: &str, field: &str, value: Value| {
        let mut hook = hook(name, &server.client_config(&format!("/{name}")));
        hook[field] = value;
        hook
    };
    let labels = |key: &str| json!({"matchLabels": {key: "yes"}});
    let condition = |expression: &str| json!([{"name": "c", "expression": expression}]);
    let hooks = [
        with("object", "objectSelector", labels("mine")),
        with("namespace", "namespaceSelector", labels("special")),
        with(
            "condition",
            "matchConditions",
            condition("object.data.k == 'v' && request.operation == 'CREATE'"),
        ),
        with("other", "matchConditions", condition("oldObject != null")),
    ];
    plane.admin.make(VALIDATING, &configuration("a", &hooks)).await;
    plane
        .admin
        .make("/api/v1/namespaces", &json!({"metadata": {"name": "s", "labels": {"special": "yes"}}}))
        .await;
    let asked = || {
        let mut paths: Vec<String> = server.asked().into_iter().map(|(path, _)| path).collect();
        paths.sort();
        paths
    };
    plane.admin.make(MAPS, &map("a")).await;
    assert_eq!(asked(), ["/condition"]);
    let mut labelled = map("b");
    labelled["metadata"]["labels"] = json!({"mine": "yes"});
    plane.admin.make("/api/v1/namespaces/s/configmaps", &labelled).await;
    assert_eq!(asked(), ["/condition", "/namespace", "/object"]);
    plane.admin.merge(&format!("{MAPS}/a"), &json!({"data": {"k": "w"}})).await;
    assert_eq!(asked(), ["/other"]);
}

#[tokio::test]
async fn failures_dry_runs_and_other_versions() {
    let server = Webhook::start(answer).await;
    let plane = TestPlane::start().await;
    let mut ignored = hook("ignored", &server.client_config("/nonsense"));
    ignored["failurePolicy"] = "Ignore".into();
    plane.admin.make(VALIDATING, &configuration("a", &[ignored])).await;
    plane.admin.make(MAPS, &map("a")).await;
    let (_, fails) = plane
        .admin
        .merge(
            &format!("{VALIDATING}/a"),
            &json!({"webhooks": [hook("fails", &server.client_config("/nonsense"))]}),
        )
        .await;
    assert_eq!(fails["webhooks"][0]["failurePolicy"], "Fail");
    let (code, failed) = plane.admin.post(MAPS, &map("b")).await;
    assert!(code == 500 && failed["message"].as_str().unwrap().contains("response.uid"), "{failed}");
    plane.admin.delete(&format!("{VALIDATING}/a"), &Value::Null).await;
    server.asked();

    // A rule for v1 means v2 as well, and is asked about v1.
    let mut crd = widgets();
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    crd["spec"]["versions"].as_array_mut().unwrap().push(second);
    plane.admin.make(CRDS, &crd).await;
    let mut equivalent = hook("equivalent", &server.client_config("/x"));
    equivalent["rules"] = json!([{"operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"]}]);
    let mut exact = equivalent.clone();
    exact["name"] = "exact.example.com".into();
    exact["clientConfig"] = server.client_config("/exact");
    exact["matchPolicy"] = "Exact".into();
    plane.admin.make(VALIDATING, &configuration("b", &[equivalent, exact])).await;
    let mut new = widget("a", json!({}));
    new["apiVersion"] = "example.com/v2".into();
    plane.admin.make("/apis/example.com/v2/namespaces/default/widgets?dryRun=All", &new).await;
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    let (path, request) = &asked[0];
    assert_eq!((path.as_str(), &request["object"]["apiVersion"]), ("/x", &json!("example.com/v1")));
    assert_eq!(
        (&request["kind"]["version"], &request["requestKind"]["version"]),
        (&json!("v1"), &json!("v2"))
    );
    assert_eq!(request["dryRun"], true);
}
