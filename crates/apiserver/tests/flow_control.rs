//! FlowSchemas and PriorityLevelConfigurations: which request is what, and what clients are told of it.

use crate::support::{Caller, MAPS, TestPlane, eventually, map};
use bytes::Bytes;
use capstan_apiserver::User;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tower_service::Service as _;

const ROOT: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

/// The UIDs of the FlowSchema and the level of a request; empty if the response does not have them.
async fn classified(caller: &Caller, path: &str, acting: Option<&str>) -> [String; 2] {
    let mut request = Request::get(path);
    if let Some(user) = acting {
        request =
            request.header("impersonate-user", user).header("impersonate-group", "system:authenticated");
    }
    let response = caller.0.clone().call(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
    ["x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"]
        .map(|name| response.headers().get(name).map_or("", |uid| uid.to_str().unwrap()).to_owned())
}

async fn uids(admin: &Caller, schema: &str, level: &str) -> [String; 2] {
    let paths =
        [format!("{ROOT}/flowschemas/{schema}"), format!("{ROOT}/prioritylevelconfigurations/{level}")];
    let mut uids = Vec::new();
    for path in paths {
        uids.push(admin.get(&path).await.1["metadata"]["uid"].as_str().unwrap().to_owned());
    }
    uids.try_into().unwrap()
}

fn level() -> Value {
    let limited = json!({"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}});
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "low"}, "spec": {"type": "Limited", "limited": limited},
    })
}

fn schema() -> Value {
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "of-noxu"},
        "spec": {
            "matchingPrecedence": 1000, "priorityLevelConfiguration": {"name": "low"},
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": "noxu"}}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }],
        },
    })
}

#[tokio::test]
async fn every_request_is_classified() {
    let plane = TestPlane::start().await;
    let admin = &plane.admin;
    let (exempt, rest) = (uids(admin, "exempt", "exempt").await, uids(admin, "catch-all", "catch-all").await);
    assert_eq!(classified(admin, "/version", None).await, exempt);
    let jane = plane.caller(User::new("jane", ["dev"]));
    for path in ["/version", MAPS, "/nowhere"] {
        assert_eq!(classified(&jane, path, None).await, rest, "{path}");
    }
    assert_eq!(classified(&jane, "/version", Some("noxu")).await, ["", ""], "nobody knows who it is");

    admin.make(&format!("{ROOT}/prioritylevelconfigurations"), &level()).await;
    admin.make(&format!("{ROOT}/flowschemas"), &schema()).await;
    let own = uids(admin, "of-noxu", "low").await;
    assert_eq!(classified(admin, "/version", Some("noxu")).await, own, "who is impersonated counts");
    assert_eq!(classified(admin, "/version", Some("foo")).await, rest);
    assert_eq!(classified(admin, MAPS, Some("noxu")).await, rest, "the schema is about other paths");
    let metrics = metrics(admin).await;
    for line in ["{priority_level=\"low\"} 6", "{priority_level=\"catch-all\"} 27"] {
        let line = format!("apiserver_flowcontrol_nominal_limit_seats{line}");
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    admin.delete(&format!("{ROOT}/prioritylevelconfigurations/low"), &Value::Null).await;
    assert_eq!(classified(admin, "/version", Some("noxu")).await, rest, "its level is gone");
    plane.server.shutdown().await;
}

async fn metrics(admin: &Caller) -> String {
    use http_body_util::BodyExt as _;
    let response = admin.send("GET", "/metrics", "", &Value::Null).await;
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn a_schema_without_its_level_dangles() {
    let plane = TestPlane::start().await;
    let admin = &plane.admin;
    let path = format!("{ROOT}/flowschemas/of-noxu");
    let dangles = || async {
        let (_, schema) = admin.get(&path).await;
        schema.pointer("/status/conditions/0").map(|condition| condition["status"].clone())
    };
    admin.make(&format!("{ROOT}/flowschemas"), &schema()).await;
    eventually("it dangles", || async { dangles().await == Some(json!("True")) }).await;
    admin.make(&format!("{ROOT}/prioritylevelconfigurations"), &level()).await;
    eventually("its level is there", || async { dangles().await == Some(json!("False")) }).await;
    admin.delete(&format!("{ROOT}/prioritylevelconfigurations/low"), &Value::Null).await;
    eventually("it dangles again", || async { dangles().await == Some(json!("True")) }).await;
    plane.server.shutdown().await;
}

#[tokio::test]
async fn a_server_that_has_opened_writes_no_condition() {
    let plane = TestPlane::start().await;
    let before = plane.server.revision();
    plane.admin.make(MAPS, &map("a")).await;
    assert_eq!(plane.server.revision(), before + 1);
    plane.server.shutdown().await;
}
