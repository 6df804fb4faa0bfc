//! Objects that the server keeps by itself, and kinds that Kubernetes' own conformance specs need.

use crate::support::{CRDS, TestPlane, eventually, pki::Authority, widgets};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
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

const AUTOSCALING: &str = "/apis/autoscaling";
const AUTOSCALERS: &str = "namespaces/default/horizontalpodautoscalers";

fn pods_that_end() -> Value {
    json!({
        "metadata": {"labels": {"app": "once"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "once", "image": "once:1"}]},
    })
}

async fn rejected_fields(plane: &TestPlane, path: &str, object: &Value) -> Vec<String> {
    let (code, status) = plane.admin.post(path, object).await;
    assert_eq!(code, 422, "{status}");
    let causes = status["details"]["causes"].as_array().unwrap().iter();
    causes.map(|cause| cause["field"].as_str().unwrap().to_owned()).collect()
}

async fn first_row(plane: &TestPlane, path: &str) -> Vec<Value> {
    let request = Request::get(path).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let response =
        plane.admin.0.clone().call(request.body(Full::new(bytes::Bytes::new())).unwrap()).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let table: Value = serde_json::from_slice(&body).unwrap();
    let columns = table["columnDefinitions"].as_array().unwrap();
    let ages = columns.iter().map(|column| column["name"] == "Age");
    let cells = table["rows"][0]["cells"].as_array().unwrap().iter().zip(ages);
    cells.filter(|(_, is_age)| !is_age).map(|(cell, _)| cell.clone()).collect()
}

#[tokio::test]
async fn jobs_get_a_selector_of_their_own() {
    let plane = TestPlane::start().await;
    let path = "/apis/batch/v1/namespaces/default/jobs";
    let job = |name: &str, spec: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec});
    let made = plane.admin.make(path, &job("a", json!({"template": pods_that_end()}))).await;
    let uid = made["metadata"]["uid"].as_str().unwrap();
    let labels = json!({
        "app": "once", "controller-uid": uid, "batch.kubernetes.io/controller-uid": uid,
        "job-name": "a", "batch.kubernetes.io/job-name": "a",
    });
    let spec = &made["spec"];
    assert_eq!(spec["template"]["metadata"]["labels"], labels);
    assert_eq!(made["metadata"]["labels"], labels, "those of the pods, if the Job has none");
    assert_eq!(spec["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
    let defaults = json!({
        "backoffLimit": 6, "completions": 1, "parallelism": 1, "completionMode": "NonIndexed", "suspend": false,
        "manualSelector": false, "podReplacementPolicy": "TerminatingOrFailed",
    });
    for (field, value) in defaults.as_object().unwrap() {
        assert_eq!(&spec[field], value, "{field}");
    }
    assert_eq!(spec["template"]["spec"]["dnsPolicy"], "ClusterFirst");
    assert_eq!((&made["metadata"]["generation"], &made["status"]), (&json!(1), &json!({})));

    // The number of pods may change, not what they are.
    let (code, _) = plane.admin.merge(&format!("{path}/a"), &json!({"spec": {"parallelism": 2}})).await;
    assert_eq!(code, 200);
    for spec in [
        json!({"completions": 2}),
        json!({"completionMode": "Indexed"}),
        json!({"template": {"metadata": {"labels": {"app": "other"}}}}),
    ] {
        let field = spec.as_object().unwrap().keys().next().unwrap().clone();
        let (code, status) = plane.admin.merge(&format!("{path}/a"), &json!({"spec": spec})).await;
        let cause = &status["details"]["causes"][0]["field"];
        assert_eq!((code, cause), (422, &json!(format!("spec.{field}"))), "{status}");
    }
    let manual = json!({"manualSelector": true, "template": pods_that_end()});
    assert_eq!(
        rejected_fields(&plane, path, &job("b", manual)).await,
        ["spec.selector", "spec.template.metadata.labels"]
    );
    let mut for_ever = pods_that_end();
    for_ever["spec"]["restartPolicy"] = "Always".into();
    let for_ever = job("b", json!({"template": for_ever}));
    assert_eq!(rejected_fields(&plane, path, &for_ever).await, ["spec.template.spec.restartPolicy"]);
    let negative = job("b", json!({"template": pods_that_end(), "parallelism": -1, "backoffLimit": -1}));
    assert_eq!(rejected_fields(&plane, path, &negative).await, ["spec.parallelism", "spec.backoffLimit"]);

    let status = json!({"status": {"succeeded": 1, "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:01:05Z",
        "conditions": [{"type": "Complete", "status": "True"}]}});
    let (code, _) = plane.admin.merge(&format!("{path}/a/status"), &status).await;
    assert_eq!(code, 200);
    let selector = format!("batch.kubernetes.io/controller-uid={uid}");
    let row = first_row(&plane, path).await;
    assert_eq!(row, ["a", "Complete", "1/1", "65s", "once", "once:1", selector.as_str()]);
    let (_, found) = plane.admin.get(&format!("{path}?fieldSelector=status.successful%3D1")).await;
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "{found}");
    plane.server.shutdown().await;
}

#[tokio::test]
async fn ingresses_say_how_paths_match() {
    let plane = TestPlane::start().await;
    let path = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let ingress = |name: &str, spec: Value| json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name}, "spec": spec});
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let rules =
        |path: Value| json!({"rules": [{"host": "example.com", "http": {"paths": [path]}}], "tls": [{}]});
    let whole = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    let made = plane.admin.make(path, &ingress("a", rules(whole))).await;
    assert_eq!((&made["metadata"]["generation"], &made["status"]), (&json!(1), &json!({"loadBalancer": {}})));
    assert_eq!(first_row(&plane, path).await, ["a", "<none>", "example.com", "", "80, 443"]);
    let at = "spec.rules[0].http.paths[0]";
    for (spec, field) in [
        (json!({}), "spec".to_owned()),
        (rules(json!({"path": "/", "backend": backend})), format!("{at}.pathType")),
        (rules(json!({"path": "x", "pathType": "Exact", "backend": backend})), format!("{at}.path")),
        (rules(json!({"pathType": "Exact", "backend": backend})), format!("{at}.path")),
        (rules(json!({"path": "/", "pathType": "Exact", "backend": {}})), format!("{at}.backend")),
        (json!({"defaultBackend": {"service": {"name": "web"}}}), "spec.defaultBackend".to_owned()),
    ] {
        assert_eq!(rejected_fields(&plane, path, &ingress("b", spec)).await, [field]);
    }
    plane.server.shutdown().await;
}

#[tokio::test]
async fn classes_keep_what_pods_rely_on() {
    let plane = TestPlane::start().await;
    let runtimes = "/apis/node.k8s.io/v1/runtimeclasses";
    let runtime = |name: &str, handler: &str| json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": handler});
    plane.admin.make(runtimes, &runtime("a", "runc")).await;
    assert_eq!(first_row(&plane, runtimes).await, ["a", "runc"]);
    for handler in ["", "A_B"] {
        assert_eq!(rejected_fields(&plane, runtimes, &runtime("b", handler)).await, ["handler"]);
    }
    let (code, _) = plane.admin.merge(&format!("{runtimes}/a"), &json!({"handler": "other"})).await;
    assert_eq!(code, 422);

    let priorities = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let priority = |name: &str, value: i64| json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
    let made = plane.admin.make(priorities, &priority("a", 5)).await;
    assert_eq!(made["preemptionPolicy"], "PreemptLowerPriority");
    assert_eq!(
        first_row(&plane, priorities).await,
        [json!("a"), 5.into(), false.into(), made["preemptionPolicy"].clone()]
    );
    assert_eq!(rejected_fields(&plane, priorities, &priority("b", 1_000_000_001)).await, ["value"]);
    assert_eq!(rejected_fields(&plane, priorities, &priority("system-b", 1)).await, ["metadata.name"]);
    plane.admin.make(priorities, &priority("system-node-critical", 2_000_001_000)).await;
    let patch = json!({"value": 6, "preemptionPolicy": "Never"});
    let (code, status) = plane.admin.merge(&format!("{priorities}/a"), &patch).await;
    assert_eq!((code, status["details"]["causes"].as_array().map(Vec::len)), (422, Some(2)), "{status}");
    let (_, described) = plane.admin.merge(&format!("{priorities}/a"), &json!({"description": "low"})).await;
    assert_eq!((&described["description"], &described["metadata"]["generation"]), (&json!("low"), &json!(1)));
    plane.server.shutdown().await;
}

#[tokio::test]
async fn the_drivers_of_a_csi_node_do_not_change() {
    let plane = TestPlane::start().await;
    let path = "/apis/storage.k8s.io/v1/csinodes";
    let node = |name: &str, drivers: Value| json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": drivers}});
    plane.admin.make(path, &node("a", json!([{"name": "disk", "nodeID": "1"}]))).await;
    assert_eq!(first_row(&plane, path).await, [json!("a"), 1.into()]);
    plane.admin.make(path, &node("none", Value::Null)).await;
    let wrong = json!([{"name": "disk", "nodeID": ""}, {"name": "disk", "nodeID": "2"}]);
    let fields = rejected_fields(&plane, path, &node("b", wrong)).await;
    assert_eq!(fields, ["spec.drivers[0].nodeID", "spec.drivers[1].name"]);
    for (node, expected) in [(json!("1"), 200), (json!("2"), 422)] {
        let drivers = json!([{"name": "disk", "nodeID": node, "allocatable": {"count": 4}}]);
        let (code, body) =
            plane.admin.merge(&format!("{path}/a"), &json!({"spec": {"drivers": drivers}})).await;
        assert_eq!(code, expected, "{body}");
    }
    plane.server.shutdown().await;
}

#[tokio::test]
async fn autoscalers_have_two_versions() {
    let plane = TestPlane::start().await;
    let (_, group) = plane.admin.get(AUTOSCALING).await;
    assert_eq!(group["preferredVersion"]["version"], "v2", "{group}");
    let versions = group["versions"].as_array().unwrap().iter();
    assert_eq!(
        versions.map(|version| version["version"].as_str().unwrap()).collect::<Vec<_>>(),
        ["v2", "v1"]
    );
    for (name, priority) in [("v1.autoscaling", 15), ("v2.autoscaling", 30)] {
        eventually(name, || async { spec_of(&plane, name).await.is_some() }).await;
        assert_eq!(spec_of(&plane, name).await.unwrap()["versionPriority"], priority);
    }
    let (old, new) = (format!("{AUTOSCALING}/v1/{AUTOSCALERS}"), format!("{AUTOSCALING}/v2/{AUTOSCALERS}"));
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let object = |version: &str, name: &str, spec: Value| json!({"apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": {"name": name}, "spec": spec});
    let simple = object("autoscaling/v1", "a", json!({"scaleTargetRef": target, "maxReplicas": 3}));
    let made = plane.admin.make(&old, &simple).await;
    let spec = json!({"scaleTargetRef": target, "maxReplicas": 3, "minReplicas": 1, "targetCPUUtilizationPercentage": 80});
    assert_eq!(made["spec"], spec);
    assert_eq!(made["status"], json!({"currentReplicas": 0, "desiredReplicas": 0}));
    let cpu = |percent: i64| json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}});
    let (_, shown) = plane.admin.get(&format!("{new}/a")).await;
    assert_eq!(shown["apiVersion"], "autoscaling/v2");
    let spec = json!({"scaleTargetRef": target, "maxReplicas": 3, "minReplicas": 1, "metrics": [cpu(80)]});
    assert_eq!(shown["spec"], spec);

    let invalid =
        object("autoscaling/v1", "b", json!({"scaleTargetRef": {"kind": "", "name": ""}, "maxReplicas": 0}));
    let fields = rejected_fields(&plane, &old, &invalid).await;
    let target_fields = ["kind", "name", "apiVersion"].map(|field| format!("spec.scaleTargetRef.{field}"));
    assert_eq!(fields, [&["spec.maxReplicas".to_owned()], &target_fields[..]].concat());
    plane.server.shutdown().await;
}

#[tokio::test]
async fn the_old_version_of_an_autoscaler_loses_nothing() {
    let plane = TestPlane::start().await;
    let (old, new) =
        (format!("{AUTOSCALING}/v1/{AUTOSCALERS}/a"), format!("{AUTOSCALING}/v2/{AUTOSCALERS}/a"));
    let cpu = |percent: i64| json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}});
    let pods = json!({"type": "Pods", "pods": {"metric": {"name": "requests"}, "target": {"type": "AverageValue", "averageValue": "5"}}});
    let spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3,
        "metrics": [cpu(50), pods], "behavior": {"scaleDown": {"stabilizationWindowSeconds": 4}},
    });
    let object = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}, "spec": spec});
    let made = plane.admin.make(&format!("{AUTOSCALING}/v2/{AUTOSCALERS}"), &object).await;
    let up = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]});
    let down = json!({"stabilizationWindowSeconds": 4, "selectPolicy": "Max", "policies": [
        {"type": "Percent", "value": 100, "periodSeconds": 15}]});
    assert_eq!(made["spec"]["behavior"], json!({"scaleUp": up, "scaleDown": down}));
    let status = json!({
        "currentReplicas": 2, "desiredReplicas": 3,
        "conditions": [{"type": "AbleToScale", "status": "True", "reason": "R"}],
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 33, "averageValue": "10m"}}}],
    });
    let (code, before) = plane.admin.merge(&format!("{new}/status"), &json!({"status": status})).await;
    assert_eq!(code, 200, "{before}");
    assert_eq!(before["status"], status);

    let (_, shown) = plane.admin.get(&old).await;
    assert_eq!(shown["spec"]["targetCPUUtilizationPercentage"], 50);
    assert_eq!(shown["status"]["currentCPUUtilizationPercentage"], 33);
    let annotation = |name: &str| {
        let text =
            shown["metadata"]["annotations"][format!("autoscaling.alpha.kubernetes.io/{name}")].as_str();
        serde_json::from_str::<Value>(text.unwrap_or_else(|| panic!("no {name}: {shown}"))).unwrap()
    };
    let old_pods = json!([{"type": "Pods", "pods": {"metricName": "requests", "targetAverageValue": "5"}}]);
    assert_eq!(annotation("metrics"), old_pods);
    assert_eq!(annotation("behavior")["ScaleDown"]["StabilizationWindowSeconds"], 4);
    assert_eq!(annotation("current-metrics")[0]["resource"]["currentAverageValue"], "10m");
    assert_eq!(annotation("conditions")[0]["type"], "AbleToScale");

    // A client of the old version that drops the annotations of the status does not change the status.
    let mut sent = shown.clone();
    sent["spec"]["targetCPUUtilizationPercentage"] = 60.into();
    let annotations = sent["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.retain(|name, _| !name.ends_with("/conditions") && !name.ends_with("/current-metrics"));
    let (code, body) = plane.admin.put(&old, &sent).await;
    assert_eq!(code, 200, "{body}");
    let (_, after) = plane.admin.get(&new).await;
    assert_eq!(after["spec"]["metrics"], json!([pods, cpu(60)]));
    assert_eq!(after["spec"]["behavior"], before["spec"]["behavior"]);
    assert_eq!(after["status"], before["status"]);
    assert_eq!(after["metadata"].get("annotations"), None, "{after}");

    for version in ["v1", "v2"] {
        let cells = first_row(&plane, &format!("{AUTOSCALING}/{version}/{AUTOSCALERS}")).await;
        let metrics = "<unknown>/5, cpu: <unknown>/60%";
        assert_eq!(
            cells,
            [json!("a"), "Deployment/web".into(), metrics.into(), "1".into(), 3.into(), 2.into()]
        );
    }
    plane.server.shutdown().await;
}

#[tokio::test]
async fn replication_controllers_are_stored_and_scaled() {
    let plane = TestPlane::start().await;
    let path = "/api/v1/namespaces/default/replicationcontrollers";
    let pods = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}});
    let controller = |spec: Value| json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "a"}, "spec": spec});
    let made = plane.admin.make(path, &controller(json!({"template": pods}))).await;
    assert_eq!((&made["spec"]["replicas"], &made["status"]), (&json!(1), &json!({"replicas": 0})));
    assert_eq!(
        rejected_fields(&plane, path, &controller(json!({"replicas": 1}))).await,
        ["spec.selector", "spec.template"]
    );
    let (_, scale) = plane.admin.get(&format!("{path}/a/scale")).await;
    assert_eq!(
        (&scale["spec"]["replicas"], &scale["status"]["selector"]),
        (&json!(1), &json!("app=web")),
        "{scale}"
    );
    let (code, _) = plane.admin.merge(&format!("{path}/a/scale"), &json!({"spec": {"replicas": 3}})).await;
    assert_eq!(code, 200);
    let (code, status) = plane
        .admin
        .merge(&format!("{path}/a/status"), &json!({"status": {"replicas": 2, "readyReplicas": 3}}))
        .await;
    assert_eq!(
        (code, &status["details"]["causes"][0]["field"]),
        (422, &json!("status.readyReplicas")),
        "{status}"
    );
    let (code, _) = plane
        .admin
        .merge(&format!("{path}/a/status"), &json!({"status": {"replicas": 2, "readyReplicas": 1}}))
        .await;
    assert_eq!(code, 200);
    let row = [json!("a"), 3.into(), 2.into(), 1.into(), "web".into(), "web:1".into(), "app=web".into()];
    assert_eq!(first_row(&plane, path).await, row);
    let (_, found) = plane.admin.get(&format!("{path}?fieldSelector=status.replicas%3D2")).await;
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "{found}");
    plane.server.shutdown().await;
}

#[tokio::test]
async fn cron_jobs_are_stored() {
    let plane = TestPlane::start().await;
    let path = "/apis/batch/v1/namespaces/default/cronjobs";
    let job = |schedule: &str| {
        let spec = json!({"schedule": schedule, "jobTemplate": {"spec": {"template": pods_that_end()}}});
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a"}, "spec": spec})
    };
    let made = plane.admin.make(path, &job("*/5 * * * *")).await;
    assert_eq!((&made["metadata"]["generation"], &made["status"]), (&json!(1), &json!({})));
    assert_eq!(rejected_fields(&plane, path, &job("every day")).await, ["spec.schedule"]);
    let status = json!({"status": {"active": [{"name": "a-1"}]}});
    assert_eq!(plane.admin.merge(&format!("{path}/a/status"), &status).await.0, 200);
    let row = [json!("a"), "*/5 * * * *".into(), "<none>".into(), "False".into(), 1.into(), "<none>".into()];
    let more = ["once", "once:1", "<none>"].map(Value::from);
    assert_eq!(first_row(&plane, path).await, [&row[..], &more].concat());
    plane.server.shutdown().await;
}

#[tokio::test]
async fn flow_control_is_defaulted_and_shown() {
    let plane = TestPlane::start().await;
    let root = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let changes = [
        ("flowschemas", json!({"spec": {"rules": []}})),
        ("prioritylevelconfigurations", json!({"spec": {"limited": {"nominalConcurrencyShares": 6}}})),
    ];
    for (resource, change) in &changes {
        for name in ["exempt", "catch-all"] {
            let path = format!("{root}/{resource}/{name}");
            let (code, object) = plane.admin.get(&path).await;
            assert_eq!(code, 200, "{object}");
            let conditions = object.pointer("/status/conditions/0/status");
            assert_eq!(conditions, (*resource == "flowschemas").then_some(&json!("False")), "{object}");
            assert_eq!(plane.admin.merge(&path, change).await.0, 422, "{resource}/{name} does not change");
        }
    }
    let schema = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "a"},
        "spec": {"priorityLevelConfiguration": {"name": "exempt"}},
    });
    let made = plane.admin.make(&format!("{root}/flowschemas"), &schema).await;
    assert_eq!(made["spec"]["matchingPrecedence"], 1000);
    let row = [json!("a"), "exempt".into(), 1000.into(), "<none>".into(), "False".into()];
    eventually("the condition is set", || async {
        first_row(&plane, &format!("{root}/flowschemas")).await == row
    })
    .await;
    let level = ["catch-all", "Limited"].map(Value::from).into_iter().chain([5.into()]);
    let level: Vec<Value> = level.chain(["<none>"; 3].map(Value::from)).collect();
    assert_eq!(first_row(&plane, &format!("{root}/prioritylevelconfigurations")).await, level);
    plane.server.shutdown().await;
}

#[tokio::test]
async fn component_statuses_are_the_health_checks() {
    let plane = TestPlane::start().await;
    let path = "/api/v1/componentstatuses";
    let (code, list) = plane.admin.get(path).await;
    assert_eq!((code, &list["kind"]), (200, &json!("ComponentStatusList")), "{list}");
    let names: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"store") && !names.contains(&"ping"), "{names:?}");
    let (code, store) = plane.admin.get(&format!("{path}/store")).await;
    assert_eq!((code, &store["conditions"][0]["status"]), (200, &json!("True")), "{store}");
    assert_eq!(
        first_row(&plane, &format!("{path}?fieldSelector=metadata.name%3Dstore")).await,
        ["store", "Healthy", "ok", ""]
    );
    let (code, missing) = plane.admin.get(&format!("{path}/etcd-0")).await;
    assert_eq!((code, &missing["message"]), (404, &json!("componentstatus \"etcd-0\" not found")));
    for (method, path) in [
        ("DELETE", format!("{path}/store")),
        ("POST", path.to_owned()),
        ("GET", format!("{path}?watch=true")),
    ] {
        let (code, body) = plane.admin.call(method, &path, "application/json", &store).await;
        assert_eq!(code, 405, "{method}: {body}");
    }
    let (_, discovered) = plane.admin.get("/api/v1").await;
    let mut resources = discovered["resources"].as_array().unwrap().iter();
    let entry = resources.find(|resource| resource["name"] == "componentstatuses").unwrap();
    assert_eq!((&entry["verbs"], &entry["shortNames"]), (&json!(["get", "list"]), &json!(["cs"])));
    plane.server.shutdown().await;
}
