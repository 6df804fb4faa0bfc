//! The audit log: who asked for what, and nothing of what was in it.

mod support;

use std::os::unix::fs::PermissionsExt as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use capstan_apiserver::{Options, Storage, User};
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use support::{TestPlane, eventually};
use tower_service::Service as _;

const VALUE: &str = "planted-7b20aa";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_noted_and_no_value_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    std::fs::write(&path, "{\"earlier\":true}\n").unwrap();
    let mut options = Options::new(Storage::Memory);
    options.audit_log = Some(path.clone());
    let plane = TestPlane::open(options).await;
    let admin = &plane.admin;
    let encoded = STANDARD.encode(VALUE);
    let secret = json!({"metadata": {"name": "s", "labels": {"a": VALUE}}, "data": {"k": encoded}});
    admin.make(SECRETS, &secret).await;
    let secret_path = format!("{SECRETS}/s");
    admin.get(&secret_path).await;
    admin.merge(&secret_path, &json!({"stringData": {"l": VALUE}})).await;
    admin.get(&format!("{SECRETS}?labelSelector=a%3D{VALUE}&limit=7")).await;
    admin.get(&format!("/api/v1/nodes?{VALUE}={VALUE}&token={VALUE}")).await;
    admin.post("/apis/authentication.k8s.io/v1/tokenreviews", &json!({"spec": {"token": VALUE}})).await;
    admin.make("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "m"}})).await;
    let token = admin.make("/api/v1/namespaces/default/serviceaccounts/m/token", &json!({})).await;
    let token = token["status"]["token"].as_str().unwrap();
    let mut watch = admin.watch(&format!("{SECRETS}?watch=true")).await;
    watch.next().await.unwrap();
    let acting = Request::get("/api/v1/pods")
        .header("impersonate-user", "jane")
        .header("authorization", format!("Bearer {VALUE}"))
        .header("user-agent", "somebody/1");
    _ = admin.0.clone().call(acting.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
    plane.caller(User::new("mallory", ["x"])).get(&secret_path).await;
    let text = || std::fs::read_to_string(&path).unwrap();
    eventually("the last is written", || async { text().contains("mallory") }).await;
    drop(watch);
    let events =
        || -> Vec<Value> { text().lines().map(|line| serde_json::from_str(line).unwrap()).collect() };
    let watches = |events: &[Value]| -> Vec<String> {
        let watches = events.iter().filter(|event| event["verb"] == "watch");
        watches.map(|event| event["stage"].as_str().unwrap().to_owned()).collect()
    };
    eventually("the end of the watch is written", || async { watches(&events()).len() == 2 }).await;
    plane.server.shutdown().await;

    for secret in [VALUE, &encoded, token] {
        assert!(!text().contains(secret), "{secret} is in the log: {}", text());
    }
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let events = events();
    assert_eq!(events[0]["earlier"], true, "it goes on where it was");
    assert_eq!(watches(&events), ["ResponseStarted", "ResponseComplete"]);
    let find = |verb: &str, user: &str| {
        let found = events.iter().find(|event| {
            event["verb"] == verb
                && event["user"]["username"] == user
                && event["objectRef"]["resource"] == "secrets"
        });
        found.unwrap_or_else(|| panic!("no {verb} by {user}: {events:?}"))
    };
    let created = find("create", "kubernetes-admin");
    assert_eq!(
        created["objectRef"],
        json!({"resource": "secrets", "namespace": "default", "apiVersion": "v1"})
    );
    assert_eq!((&created["level"], &created["stage"]), (&json!("Metadata"), &json!("ResponseComplete")));
    assert_eq!(created["responseStatus"]["code"], 201);
    assert_eq!(created["userAgent"], "test/1");
    assert!(created["auditID"].is_string() && created["requestReceivedTimestamp"].is_string());
    assert_eq!(
        find("list", "kubernetes-admin")["requestURI"],
        format!("{SECRETS}?labelSelector=...&limit=7")
    );
    assert_eq!(find("get", "mallory")["responseStatus"]["code"], 403);
    let acting = events.iter().find(|event| event["userAgent"] == "somebody/1").unwrap();
    assert_eq!(acting["impersonatedUser"]["username"], "jane");
    assert_eq!(acting["responseStatus"]["code"], 403);
}
