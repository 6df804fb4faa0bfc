//! Objects that the server keeps by itself, and kinds that Kubernetes' own conformance specs need.

mod support;

use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use support::{CRDS, TestPlane, eventually, pki::Authority, widgets};
use tower_service::Service as _;

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

async fn spec_of(plane: &TestPlane, name: &str) -> Option<Value> {
    let (code, service) = plane.admin.get(&format!("{API_SERVICES}/{name}")).await;
    (code == 200).then(|| service["spec"].clone())
}

#[tokio::test]
async fn each_group_has_an_api_service() {
    let plane = TestPlane::start().await;
    eventually("the group of core", || async { spec_of(&plane, "v1.").await.is_some() }).await;
    eventually("the group of roles", || async {
        spec_of(&plane, "v1.rbac.authorization.k8s.io").await.is_some()
    })
    .await;
    let (_, service) = plane.admin.get(&format!("{API_SERVICES}/v1.")).await;
    let condition = &service["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Available"), &json!("True")));

    // Those of CRDs come and go with them.
    assert_eq!(spec_of(&plane, "v1.example.com").await, None);
    plane.admin.make(CRDS, &widgets()).await;
    eventually("the group of a CRD", || async { spec_of(&plane, "v1.example.com").await.is_some() }).await;
    let spec = spec_of(&plane, "v1.example.com").await.unwrap();
    let expected = json!({"group": "example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100});
    assert_eq!(spec, expected);
    plane.admin.delete(&format!("{CRDS}/widgets.example.com"), &Value::Null).await;
    plane.admin.gone(&format!("{API_SERVICES}/v1.example.com")).await;

    // A lost one comes back.
    let uid = service["metadata"]["uid"].clone();
    plane.admin.delete(&format!("{API_SERVICES}/v1."), &Value::Null).await;
    eventually("another one", || async {
        let (code, service) = plane.admin.get(&format!("{API_SERVICES}/v1.")).await;
        code == 200 && service["metadata"]["uid"] != uid
    })
    .await;
    plane.server.shutdown().await;
}

#[tokio::test]
async fn other_servers_are_not_aggregated() {
    let plane = TestPlane::start().await;
    let service = |name: &str, more: Value| {
        let mut spec = json!({"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}, "spec": spec})
    };
    let name = "v1beta1.metrics.k8s.io";
    for (object, field) in [
        (
            service(name, json!({"service": {"name": "metrics-server", "namespace": "kube-system"}})),
            "spec.service",
        ),
        (service("metrics", json!({})), "metadata.name"),
        (service(name, json!({"versionPriority": 0})), "spec.versionPriority"),
        (service(name, json!({"groupPriorityMinimum": 20_001})), "spec.groupPriorityMinimum"),
    ] {
        let (code, status) = plane.admin.post(API_SERVICES, &object).await;
        assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!(field)), "{status}");
    }
    plane.admin.make(API_SERVICES, &service(name, json!({}))).await;
    plane.server.shutdown().await;
}

#[tokio::test]
async fn the_service_kubernetes_is_kept() {
    let plane = TestPlane::start().await;
    let authority = Authority::new().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = plane.server.serve(listener, &authority.server().unwrap()).unwrap().port();
    let service = "/api/v1/namespaces/default/services/kubernetes";
    let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    for path in [service, slice] {
        eventually(path, || async { plane.admin.get(path).await.0 == 200 }).await;
    }
    assert_eq!(plane.admin.get(service).await.1["spec"]["ports"][0]["port"], port);
    assert_eq!(
        plane.admin.get(slice).await.1["endpoints"],
        json!([]),
        "a loopback address is of no use to other machines"
    );
    // Whatever happens to it.
    plane.admin.merge(service, &json!({"spec": {"ports": [{"name": "https", "port": 1}]}})).await;
    eventually("the port", || async { plane.admin.get(service).await.1["spec"]["ports"][0]["port"] == port })
        .await;
    plane.admin.delete(service, &Value::Null).await;
    eventually("the Service", || async { plane.admin.get(service).await.0 == 200 }).await;
    plane.server.shutdown().await;
}

#[tokio::test]
async fn pod_templates_are_stored() {
    let plane = TestPlane::start().await;
    let path = "/api/v1/namespaces/default/podtemplates";
    let containers = json!([{"name": "web", "image": "web:1"}]);
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}});
    let object =
        json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a"}, "template": template});
    let made = plane.admin.make(path, &object).await;
    assert_eq!(made["template"]["spec"]["restartPolicy"], "Always");
    let (_, list) = plane.admin.get(&format!("{path}?limit=1")).await;
    assert_eq!((&list["kind"], list["items"].as_array().map(Vec::len)), (&json!("PodTemplateList"), Some(1)));
    plane.server.shutdown().await;
}

#[tokio::test]
async fn a_review_is_not_a_table() {
    let plane = TestPlane::start().await;
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    for (accept, expected) in
        [("application/json", 201), ("application/json;as=Table;v=v1;g=meta.k8s.io", 406)]
    {
        let request = Request::post(path).header("content-type", "application/json").header("accept", accept);
        let request = request.body(Full::new(bytes::Bytes::from(review.to_string()))).unwrap();
        let response = plane.admin.0.clone().call(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(code, expected, "{}", String::from_utf8_lossy(&body));
    }
    plane.server.shutdown().await;
}

/// kube-apiserver does not validate these.
#[tokio::test]
async fn conditions_of_a_crd_may_lack_a_type() {
    let plane = TestPlane::start().await;
    plane.admin.make(CRDS, &widgets()).await;
    let status = format!("{CRDS}/widgets.example.com/status");
    let (_, before) = plane.admin.get(&status).await;
    let mut conditions = before["status"]["conditions"].as_array().unwrap().clone();
    conditions.insert(0, json!({"message": "patched"}));
    let (code, after) = plane.admin.merge(&status, &json!({"status": {"conditions": conditions}})).await;
    assert_eq!((code, &after["status"]["conditions"][0]["message"]), (200, &json!("patched")), "{after}");
    plane.server.shutdown().await;
}
