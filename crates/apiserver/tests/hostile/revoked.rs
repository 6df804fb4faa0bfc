//! A credential that was revoked, or whose rights were taken away: nothing goes on, not even a watch that is open.

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::server::{SOON, Server, open, send};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REVOCATIONS: &str = "/capstan/v1/revocations";
const JSON: &str = "application/json";

/// Lets mallory read ConfigMaps.
async fn let_in(server: &Server) {
    let mut admin = server.client("admin").many().await;
    let role = json!({"metadata": {"name": "r"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]});
    let binding = json!({
        "metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "mallory"}],
    });
    for (path, body) in [(format!("{RBAC}/roles"), role), (format!("{RBAC}/rolebindings"), binding)] {
        let (code, text) = send(&mut admin, "POST", &path, JSON, &body.to_string()).await;
        assert_eq!(code, 201, "{text}");
    }
}

/// Reads a watch until the server ends it.
async fn until_ended(body: Incoming) {
    // What the watch has to say does not matter here.
    timeout(SOON, body.collect()).await.expect("the watch ends").expect("and it ends in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_with_the_right_to_it() {
    let server = Server::start();
    let_in(&server).await;
    let (mut mallory, mut admin) =
        (server.client("mallory").many().await, server.client("admin").many().await);
    let watch = open(&mut mallory, "GET", &format!("{MAPS}?watch=true"), "", "").await;
    assert_eq!(watch.status(), 200);
    let mut watch = watch.into_body();
    // Other changes of rights do not disturb it.
    let other = json!({"metadata": {"name": "other"}, "rules": []});
    let (code, _) = send(&mut admin, "POST", &format!("{RBAC}/roles"), JSON, &other.to_string()).await;
    assert_eq!(code, 201);
    tokio::time::sleep(2 * crate::server::LIMITS().recheck).await;
    let map = json!({"metadata": {"name": "seen"}}).to_string();
    assert_eq!(send(&mut admin, "POST", MAPS, JSON, &map).await.0, 201);
    let mut seen = String::new();
    while !seen.contains("\"seen\"") {
        let frame =
            timeout(SOON, watch.frame()).await.expect("an event").expect("the watch goes on").unwrap();
        seen += &String::from_utf8_lossy(frame.data_ref().unwrap());
    }
    assert_eq!(send(&mut admin, "DELETE", &format!("{RBAC}/rolebindings/b"), "", "").await.0, 200);
    until_ended(watch).await;
    assert_eq!(send(&mut mallory, "GET", MAPS, "", "").await.0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_certificate_ends_everything() {
    let server = Server::start();
    let_in(&server).await;
    let (mut mallory, mut admin) =
        (server.client("mallory").many().await, server.client("admin").many().await);
    let watch = open(&mut mallory, "GET", &format!("{MAPS}?watch=true"), "", "").await;
    assert_eq!(watch.status(), 200);
    let revocation = json!({"kind": "Group", "name": "x"}).to_string();
    let (code, text) = send(&mut admin, "POST", REVOCATIONS, JSON, &revocation).await;
    assert_eq!(code, 200, "{text}");
    assert_eq!(send(&mut mallory, "GET", MAPS, "", "").await.0, 401);
    until_ended(watch.into_body()).await;
    let mut again = server.client("mallory").many().await;
    assert_eq!(send(&mut again, "GET", MAPS, "", "").await.0, 401);
    let (_, all) = send(&mut admin, "GET", REVOCATIONS, "", "").await;
    let all: Value = serde_json::from_str(&all).unwrap();
    assert_eq!(
        (&all["revocations"][0]["kind"], &all["revocations"][0]["name"]),
        (&json!("Group"), &json!("x"))
    );
    server.still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_tokens_are_rejected_and_later_ones_are_not() {
    let server = Server::start();
    let mut admin = server.client("admin").many().await;
    let account = json!({"metadata": {"name": "a"}}).to_string();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(send(&mut admin, "POST", accounts, JSON, &account).await.0, 201);
    let user = "system:serviceaccount:default:a";
    let mut token = async || {
        let (code, text) = send(&mut admin, "POST", &format!("{accounts}/a/token"), JSON, "{}").await;
        assert_eq!(code, 201, "{text}");
        let token: Value = serde_json::from_str(&text).unwrap();
        json!({"spec": {"token": token["status"]["token"]}}).to_string()
    };
    let first = token().await;
    // The time of issue is in whole seconds, and what was issued in the second of a revocation is revoked.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let mut admin = server.client("admin").many().await;
    let revocation = json!({"kind": "User", "name": user}).to_string();
    assert_eq!(send(&mut admin, "POST", REVOCATIONS, JSON, &revocation).await.0, 200);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let later = token().await;
    for (review, expected) in [(&first, json!(null)), (&later, json!(true))] {
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let (_, text) = send(&mut admin, "POST", path, JSON, review).await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["status"]["authenticated"], expected, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_administrators_revoke() {
    let server = Server::start();
    let mut admin = server.client("admin").many().await;
    let binding = json!({
        "metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "mallory"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(send(&mut admin, "POST", bindings, JSON, &binding.to_string()).await.0, 201);
    let mut mallory = server.client("mallory").many().await;
    let revocation = json!({"kind": "Group", "name": "system:masters"}).to_string();
    for (method, body) in [("POST", revocation.as_str()), ("GET", "")] {
        let (code, text) = send(&mut mallory, method, REVOCATIONS, JSON, body).await;
        assert_eq!(code, 403, "{text}");
    }
    assert_eq!(send(&mut admin, "DELETE", REVOCATIONS, "", "").await.0, 405);
    let (code, text) = send(&mut admin, "POST", REVOCATIONS, JSON, r#"{"kind":"User"}"#).await;
    assert_eq!(code, 400, "{text}");
    server.still_serves().await;
}
