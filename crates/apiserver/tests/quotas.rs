//! ResourceQuotas: writes that exceed one are rejected, and the status says what is used.

use crate::support::{CRDS, TestPlane, eventually, map, widget, widgets};
use futures::future::join_all;
use serde_json::{Value, json};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn quota(name: &str, spec: Value) -> Value {
    let mut quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}});
    quota["spec"] = spec;
    quota
}

fn pod(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "c", "image": "c:1"}]);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}

fn requesting(requests: Value) -> Value {
    let mut container = json!({"name": "c", "image": "c:1"});
    container["resources"]["requests"] = requests;
    json!({"containers": [container]})
}

/// Waits until the status says this.
async fn used(plane: &TestPlane, name: &str, expected: Value) {
    eventually(&format!("the status of {name} says {expected}"), || async {
        let (_, quota) = plane.admin.get(&format!("{QUOTAS}/{name}")).await;
        let used = &quota["status"]["used"];
        expected.as_object().unwrap().iter().all(|(resource, amount)| &used[resource] == amount)
    })
    .await;
}

#[tokio::test]
async fn the_number_of_objects_is_limited() {
    let plane = TestPlane::start().await;
    let made = plane
        .admin
        .make(
            QUOTAS,
            &quota("q", json!({"hard": {"configmaps": 2, "count/configmaps": "5", "resourcequotas": "1"}})),
        )
        .await;
    assert_eq!(made["spec"]["hard"]["configmaps"], "2", "in canonical form");
    used(&plane, "q", json!({"configmaps": "0", "resourcequotas": "1"})).await;
    plane.admin.make(MAPS, &map("a")).await;
    plane.admin.make(MAPS, &map("b")).await;
    let (code, status) = plane.admin.post(MAPS, &map("c")).await;
    let message = "configmaps \"c\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2";
    assert_eq!(
        (code, &status["reason"], &status["message"]),
        (403, &json!("Forbidden"), &json!(message)),
        "{status}"
    );
    let (code, _) = plane.admin.apply(&format!("{MAPS}/c?fieldManager=test"), &map("c")).await;
    assert_eq!(code, 403, "an apply that creates");
    assert_eq!(plane.admin.post(&format!("{MAPS}?dryRun=All"), &map("c")).await.0, 403, "a dry run");
    assert_eq!(plane.admin.post(QUOTAS, &quota("r", json!({}))).await.0, 403, "quotas are objects too");
    used(&plane, "q", json!({"configmaps": "2", "count/configmaps": "2"})).await;
    // Changes are not creations, and other namespaces have other quotas.
    assert_eq!(plane.admin.merge(&format!("{MAPS}/a"), &json!({"data": {"a": "b"}})).await.0, 200);
    plane.admin.make("/api/v1/namespaces/kube-public/configmaps", &map("c")).await;
    plane.admin.delete(&format!("{MAPS}/a"), &Value::Null).await;
    used(&plane, "q", json!({"configmaps": "1"})).await;
    plane.admin.make(MAPS, &map("c")).await;
    // A lower limit rejects at once; without a quota there is no limit.
    plane.admin.merge(&format!("{QUOTAS}/q"), &json!({"spec": {"hard": {"configmaps": "1"}}})).await;
    assert_eq!(plane.admin.post(MAPS, &map("d")).await.0, 403);
    plane.admin.delete(&format!("{QUOTAS}/q"), &Value::Null).await;
    plane.admin.make(MAPS, &map("d")).await;
    plane.server.shutdown().await;
}

#[tokio::test]
async fn writes_at_the_same_time_do_not_exceed_a_quota() {
    let plane = TestPlane::start().await;
    plane.admin.make(QUOTAS, &quota("q", json!({"hard": {"count/configmaps": "5"}}))).await;
    let names: Vec<String> = (0..30).map(|index| format!("map-{index}")).collect();
    let writes = names.iter().map(|name| {
        let map = map(name);
        let admin = &plane.admin;
        async move { admin.post(MAPS, &map).await.0 }
    });
    let codes = join_all(writes).await;
    let of = |code: u16| codes.iter().filter(|found| **found == code).count();
    assert_eq!((of(201), of(403)), (5, 25), "{codes:?}");
    used(&plane, "q", json!({"count/configmaps": "5"})).await;
    plane.server.shutdown().await;
}

#[tokio::test]
async fn custom_resources_are_counted() {
    let plane = TestPlane::start().await;
    plane
        .admin
        .make(
            QUOTAS,
            &quota(
                "q",
                json!({"hard": {"count/widgets.example.com": "1", "count/nothing.example.com": "1"}}),
            ),
        )
        .await;
    let path = "/apis/example.com/v1/namespaces/default/widgets";
    plane.admin.make(CRDS, &widgets()).await;
    plane.admin.make(path, &widget("a", json!({"size": "S"}))).await;
    used(&plane, "q", json!({"count/widgets.example.com": "1"})).await;
    assert_eq!(plane.admin.post(path, &widget("b", json!({"size": "S"}))).await.0, 403);
    let (_, found) = plane.admin.get(&format!("{QUOTAS}/q")).await;
    assert!(found["status"]["used"].get("count/nothing.example.com").is_none(), "{found}");
    plane.server.shutdown().await;
}

#[tokio::test]
async fn the_requests_of_pods_are_limited() {
    let plane = TestPlane::start().await;
    plane
        .admin
        .make(QUOTAS, &quota("q", json!({"hard": {"pods": "2", "cpu": "1", "requests.memory": "1Gi"}})))
        .await;
    let (code, status) = plane.admin.post(PODS, &pod("a", json!({}))).await;
    let message = "pods \"a\" is forbidden: failed quota: q: must specify cpu for: c; requests.memory for: c";
    assert_eq!((code, &status["message"]), (403, &json!(message)));
    plane.admin.make(PODS, &pod("a", requesting(json!({"cpu": "500m", "memory": "512Mi"})))).await;
    let (code, status) =
        plane.admin.post(PODS, &pod("b", requesting(json!({"cpu": "600m", "memory": "100Mi"})))).await;
    let message =
        "pods \"b\" is forbidden: exceeded quota: q, requested: cpu=600m, used: cpu=500m, limited: cpu=1";
    assert_eq!((code, &status["message"]), (403, &json!(message)));
    used(&plane, "q", json!({"pods": "1", "cpu": "500m", "requests.memory": "512Mi"})).await;
    // What was charged does not change; a pod that ended is not charged any more.
    let more = json!({"spec": requesting(json!({"cpu": "1m", "memory": "1Mi"}))});
    assert_eq!(plane.admin.merge(&format!("{PODS}/a"), &more).await.0, 422);
    assert_eq!(
        plane.admin.merge(&format!("{PODS}/a/status"), &json!({"status": {"phase": "Failed"}})).await.0,
        200
    );
    used(&plane, "q", json!({"pods": "0", "cpu": "0", "requests.memory": "0"})).await;
    plane.admin.make(PODS, &pod("b", requesting(json!({"cpu": "1", "memory": "1Gi"})))).await;
    let (_, limited) = plane
        .admin
        .post(
            "/api/v1/namespaces/kube-public/pods?dryRun=All",
            &pod("c", json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]})),
        )
        .await;
    assert_eq!(limited["spec"]["containers"][0]["resources"]["requests"], json!({"cpu": "1"}), "{limited}");
    let wrong = pod("c", requesting(json!({"cpu": "much"})));
    assert_eq!(plane.admin.post(PODS, &wrong).await.0, 422, "not a quantity");
    plane.server.shutdown().await;
}

#[tokio::test]
async fn a_quota_may_be_about_some_pods() {
    let plane = TestPlane::start().await;
    plane
        .admin
        .make(QUOTAS, &quota("short", json!({"hard": {"pods": "1"}, "scopes": ["Terminating"]})))
        .await;
    let high =
        json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]});
    plane.admin.make(QUOTAS, &quota("high", json!({"hard": {"pods": "1"}, "scopeSelector": high}))).await;
    plane.admin.make(PODS, &pod("long", json!({}))).await;
    plane.admin.make(PODS, &pod("short", json!({"activeDeadlineSeconds": 9}))).await;
    plane.admin.make(PODS, &pod("high", json!({"priorityClassName": "high"}))).await;
    used(&plane, "short", json!({"pods": "1"})).await;
    used(&plane, "high", json!({"pods": "1"})).await;
    for spec in [json!({"activeDeadlineSeconds": 9}), json!({"priorityClassName": "high"})] {
        assert_eq!(plane.admin.post(PODS, &pod("b", spec)).await.0, 403);
    }
    let into_scope = json!({"spec": {"activeDeadlineSeconds": 9}});
    assert_eq!(plane.admin.merge(&format!("{PODS}/long"), &into_scope).await.0, 403, "a change into a scope");
    plane.server.shutdown().await;
}

#[tokio::test]
async fn ports_of_nodes_are_limited_when_a_service_changes() {
    let plane = TestPlane::start().await;
    let path = "/api/v1/namespaces/default/services";
    plane
        .admin
        .make(
            QUOTAS,
            &quota("q", json!({"hard": {"services.nodeports": "1", "services.loadbalancers": "0"}})),
        )
        .await;
    let ports = json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}]);
    let service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}});
    plane.admin.make(path, &service).await;
    let (code, status) =
        plane.admin.merge(&format!("{path}/s"), &json!({"spec": {"type": "NodePort"}})).await;
    let message = "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, limited: services.nodeports=1";
    assert_eq!((code, &status["message"]), (403, &json!(message)));
    let one = json!({"spec": {"type": "NodePort", "ports": [{"name": "a", "port": 1}]}});
    assert_eq!(plane.admin.merge(&format!("{path}/s"), &one).await.0, 200);
    used(&plane, "q", json!({"services.nodeports": "1", "services.loadbalancers": "0"})).await;
    plane.server.shutdown().await;
}

#[tokio::test]
async fn the_status_is_computed_again_whatever_is_written_there() {
    let plane = TestPlane::start().await;
    plane.admin.make(QUOTAS, &quota("q", json!({"hard": {"secrets": "3"}}))).await;
    used(&plane, "q", json!({"secrets": "0"})).await;
    let wrong = json!({"status": {"hard": {"secrets": "9"}, "used": {"secrets": "7"}}});
    assert_eq!(plane.admin.merge(&format!("{QUOTAS}/q/status"), &wrong).await.0, 200);
    used(&plane, "q", json!({"secrets": "0"})).await;
    let (_, quota) = plane.admin.get(&format!("{QUOTAS}/q")).await;
    assert_eq!(quota["status"]["hard"], json!({"secrets": "3"}));
    plane.server.shutdown().await;
}

#[tokio::test]
async fn limit_ranges_set_and_bound_the_resources_of_pods() {
    let plane = TestPlane::start().await;
    let path = "/api/v1/namespaces/default/limitranges";
    let limits = json!([{"type": "Container", "max": {"cpu": 2}, "defaultRequest": {"cpu": "500m"}, "min": {"memory": "1Mi"}}]);
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": limits}});
    let made = plane.admin.make(path, &range).await;
    let defaults = &made["spec"]["limits"][0];
    assert_eq!(defaults["default"], json!({"cpu": "2"}), "the most, in canonical form");
    assert_eq!(defaults["defaultRequest"], json!({"cpu": "500m", "memory": "1Mi"}));
    // A quota is satisfied by defaults.
    plane.admin.make(QUOTAS, &quota("q", json!({"hard": {"requests.cpu": "1", "limits.cpu": "4"}}))).await;
    let pod_a = plane.admin.make(PODS, &pod("a", json!({}))).await;
    let resources = json!({"requests": {"cpu": "500m", "memory": "1Mi"}, "limits": {"cpu": "2"}});
    assert_eq!(pod_a["spec"]["containers"][0]["resources"], resources);
    let said = "LimitRanger plugin set: cpu, memory request for container c; cpu limit for container c";
    assert_eq!(pod_a["metadata"]["annotations"]["kubernetes.io/limit-ranger"], said);
    used(&plane, "q", json!({"requests.cpu": "500m", "limits.cpu": "2"})).await;
    let large = json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "3"}, "requests": {"cpu": "1", "memory": "1Ki"}}}]});
    let (code, status) = plane.admin.post(PODS, &pod("b", large)).await;
    let message = "pods \"b\" is forbidden: [minimum memory usage per Container is 1Mi, but request is 1Ki, maximum cpu usage per Container is 2, but limit is 3]";
    assert_eq!((code, &status["message"]), (403, &json!(message)));
    let other =
        json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}}]}});
    assert_eq!(plane.admin.merge(&format!("{path}/l"), &other).await.0, 422);
    plane.server.shutdown().await;
}
