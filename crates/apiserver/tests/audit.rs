//! The audit log: who asked for what, and nothing of what was in it unless a policy asks for it.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::{MAPS, TestPlane, eventually, map};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use capstan_apiserver::{AuditPolicy, Options, Storage, User};
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
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

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
omitStages: [ResponseStarted]
rules:
- {level: None, users: [robot]}
- {level: Metadata, resources: [{resources: [secrets]}]}
- {level: RequestResponse, resources: [{resources: [configmaps]}], omitStages: [RequestReceived]}
- {level: RequestResponse, nonResourceURLs: [/capstan/*]}
- {level: Request, verbs: [create]}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_selects_what_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let mut options = Options::new(Storage::Memory);
    options.audit_log = Some(path.clone());
    options.audit_policy = Some(AuditPolicy::parse(POLICY).unwrap());
    let plane = TestPlane::open(options).await;
    let admin = &plane.admin;
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": VALUE}});
    admin.make(SECRETS, &secret).await;
    admin.make(MAPS, &map("m")).await;
    admin.merge(&format!("{MAPS}/m"), &json!({"data": {"l": "patched"}})).await;
    let mut large = map("large");
    large["data"]["k"] = "x".repeat(200_000).into();
    admin.make(MAPS, &large).await;
    admin.get("/capstan/v1/backup").await;
    admin.get("/version").await;
    admin.make("/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await;
    plane.caller(User::new("robot", ["x"])).get(MAPS).await;
    let mut watch = admin.watch(&format!("{MAPS}?watch=true")).await;
    watch.next().await.unwrap();
    drop(watch);
    let text = || std::fs::read_to_string(&path).unwrap();
    eventually("the end of the watch is written", || async { text().contains("\"watch\"") }).await;
    plane.server.shutdown().await;

    let text = text();
    assert!(
        !text.contains(VALUE) && !text.contains(&STANDARD.encode(VALUE)) && !text.contains("robot"),
        "{text}"
    );
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let find = |verb: &str, resource: &str, name: Option<&str>| -> Vec<&Value> {
        let is_one = |event: &&Value| {
            event["verb"] == verb
                && event["objectRef"]["resource"] == resource
                && name.is_none_or(|name| event["requestObject"]["metadata"]["name"] == name)
        };
        events.iter().filter(is_one).collect()
    };
    let stages = |events: &[&Value]| -> Vec<String> {
        events.iter().map(|event| event["stage"].as_str().unwrap().to_owned()).collect()
    };
    let secrets = find("create", "secrets", None);
    assert_eq!(stages(&secrets), ["RequestReceived", "ResponseComplete"]);
    assert!(secrets.iter().all(|event| event["level"] == "Metadata" && event["requestObject"].is_null()));
    let [created] = find("create", "configmaps", Some("m"))[..] else { panic!("{text}") };
    assert_eq!((&created["level"], &created["requestObject"]), (&json!("RequestResponse"), &map("m")));
    assert_eq!(created["responseObject"]["data"], json!({"k": "v"}));
    assert_eq!(created["responseObject"]["metadata"]["managedFields"], Value::Null);
    let [patched] = find("patch", "configmaps", None)[..] else { panic!("{text}") };
    assert_eq!(patched["requestObject"], json!({"data": {"l": "patched"}}));
    assert_eq!(patched["responseObject"]["data"]["l"], "patched");
    let truncated = find("create", "configmaps", None);
    let truncated = truncated.iter().find(|event| event["requestObject"].is_null()).unwrap();
    assert_eq!(truncated["annotations"]["audit.k8s.io/truncated"], "true");
    assert_eq!(truncated["responseObject"], Value::Null);
    let backup: Vec<&Value> =
        events.iter().filter(|event| event["requestURI"] == "/capstan/v1/backup").collect();
    assert_eq!(stages(&backup), ["RequestReceived", "ResponseComplete"]);
    assert!(backup.iter().all(|event| event["responseObject"].is_null()));
    assert!(!events.iter().any(|event| event["requestURI"] == "/version"), "no rule is about it");
    let namespaces = find("create", "namespaces", Some("n"));
    assert_eq!(stages(&namespaces), ["ResponseComplete"], "bodies are known at the end");
    assert_eq!(namespaces[0]["responseObject"], Value::Null);
    assert_eq!(stages(&find("watch", "configmaps", None)), ["ResponseComplete"]);
}
