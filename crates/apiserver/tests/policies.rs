//! ValidatingAdmissionPolicies: what they see, what they reject, and what the API says of them.

use crate::support::{CRDS, MAPS, TestPlane, WIDGETS, eventually, map, widget, widgets};
use capstan_apiserver::{Options, Storage, User};
use http_body_util::BodyExt;
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const NAMESPACES: &str = "/api/v1/namespaces";

fn rule(group: &str, resource: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]})
}

/// A policy with this spec for a resource.
fn policy(name: &str, resource: (&str, &str), spec: Value) -> Value {
    let mut policy = json!({"metadata": {"name": name}});
    policy["spec"] = spec;
    if policy["spec"].get("matchConstraints").is_none() {
        policy["spec"]["matchConstraints"] = json!({"resourceRules": [rule(resource.0, resource.1)]});
    }
    policy
}

fn binding(name: &str, actions: &[&str]) -> Value {
    json!({"metadata": {"name": format!("{name}-binding")}, "spec": {"policyName": name, "validationActions": actions}})
}

/// Makes a policy for ConfigMaps and binds it.
async fn bound(plane: &TestPlane, name: &str, spec: Value) {
    plane.admin.make(POLICIES, &policy(name, ("", "configmaps"), spec)).await;
    plane.admin.make(BINDINGS, &binding(name, &["Deny"])).await;
}

fn deployment(name: &str, replicas: i64) -> Value {
    let labels = json!({"app": "nginx"});
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": "registry.k8s.io/nginx:1"}]},
            },
        },
    })
}

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_deployment_is_validated() {
    let plane = TestPlane::start().await;
    plane
        .admin
        .merge(&format!("{NAMESPACES}/default"), &json!({"metadata": {"labels": {"mine": "true"}}}))
        .await;
    plane.admin.make(NAMESPACES, &json!({"metadata": {"name": "other"}})).await;
    let selected = json!({"matchLabels": {"mine": "true"}});
    let made = plane
        .admin
        .make(POLICIES, &policy("replicas", ("apps", "deployments"), json!({
            "matchConstraints": {"namespaceSelector": selected, "resourceRules": [rule("apps", "deployments")]},
            "validations": [
                {"expression": "object.spec.replicas > 1", "messageExpression": "'wants replicas > 1, got ' + object.spec.replicas"},
                {"expression": "namespaceObject.metadata.name == 'default'", "message": "other namespace"},
            ],
        })))
        .await;
    assert_eq!(made["spec"]["failurePolicy"], "Fail");
    assert_eq!(made["spec"]["matchConstraints"]["matchPolicy"], "Equivalent");
    assert_eq!(made["spec"]["matchConstraints"]["objectSelector"], json!({}));
    assert_eq!(made["spec"]["matchConstraints"]["resourceRules"][0]["scope"], "*");
    // Without a binding it is not enforced.
    plane.admin.make(DEPLOYMENTS, &deployment("unbound", 1)).await;
    let mut bound = binding("replicas", &["Deny"]);
    bound["spec"]["matchResources"] = json!({"namespaceSelector": selected});
    let made = plane.admin.make(BINDINGS, &bound).await;
    assert_eq!(made["spec"]["matchResources"]["matchPolicy"], "Equivalent");
    let (code, status) = plane.admin.post(DEPLOYMENTS, &deployment("marker", 1)).await;
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
    let expected = "deployments.apps \"marker\" is forbidden: ValidatingAdmissionPolicy 'replicas' with binding \
                    'replicas-binding' denied request: failed expression: object.spec.replicas > 1";
    assert_eq!(status["message"], expected);
    assert_eq!(status["details"]["name"], "marker");
    assert!(expected.ends_with(status["details"]["causes"][0]["message"].as_str().unwrap()));
    plane.admin.make(DEPLOYMENTS, &deployment("replicated", 2)).await;
    plane.admin.make("/apis/apps/v1/namespaces/other/deployments", &deployment("elsewhere", 1)).await;
    let (code, _) =
        plane.admin.merge(&format!("{DEPLOYMENTS}/replicated"), &json!({"spec": {"replicas": 1}})).await;
    assert_eq!(code, 422);
    // The scale is another resource.
    let scale = json!({"spec": {"replicas": 1}});
    assert_eq!(plane.admin.merge(&format!("{DEPLOYMENTS}/replicated/scale"), &scale).await.0, 200);
    plane.admin.delete(&format!("{BINDINGS}/replicas-binding"), &Value::Null).await;
    plane.admin.make(DEPLOYMENTS, &deployment("marker", 1)).await;
    plane.server.shutdown().await;
}

#[tokio::test]
async fn expressions_refer_to_variables() {
    let plane = TestPlane::start().await;
    let spec = json!({
        "variables": [
            {"name": "replicas", "expression": "object.spec.replicas"},
            {"name": "oddReplicas", "expression": "variables.replicas % 2 == 1"},
        ],
        "validations": [
            {"expression": "variables.replicas > 1"},
            {"expression": "variables.oddReplicas", "messageExpression": "'even: ' + string(variables.replicas)"},
        ],
    });
    plane.admin.make(POLICIES, &policy("odd", ("apps", "deployments"), spec)).await;
    plane.admin.make(BINDINGS, &binding("odd", &["Deny"])).await;
    let (code, status) = plane.admin.post(DEPLOYMENTS, &deployment("a", 1)).await;
    assert_eq!(code, 422);
    assert!(message(&status).ends_with("failed expression: variables.replicas > 1"), "{status}");
    let (_, status) = plane.admin.post(DEPLOYMENTS, &deployment("a", 4)).await;
    assert!(message(&status).ends_with("denied request: even: 4"), "{status}");
    plane.admin.make(DEPLOYMENTS, &deployment("a", 3)).await;
    plane.server.shutdown().await;
}

#[tokio::test]
async fn policies_see_all_operations() {
    let plane = TestPlane::start().await;
    plane.admin.make(MAPS, &map("kept")).await;
    bound(&plane, "guard", json!({"validations": [
        {"expression": "request.operation != 'DELETE' || oldObject.metadata.name != 'kept'", "reason": "Forbidden", "message": "keep it"},
        {"expression": "request.operation != 'UPDATE' || object.data.k == oldObject.data.k", "reason": "Unauthorized"},
        {"expression": "request.operation != 'CREATE' || oldObject == null && size(object.data.k) < 3", "reason": "RequestEntityTooLarge"},
        {"expression": "request.resource.resource == 'configmaps' && request.userInfo.username == 'kubernetes-admin'"},
        {"expression": "request.namespace == 'default' && !request.dryRun"},
    ]}))
    .await;
    let kept = format!("{MAPS}/kept");
    let (code, status) = plane.admin.delete(&kept, &Value::Null).await;
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")), "{status}");
    assert!(message(&status).ends_with("denied request: keep it"), "{status}");
    let (code, status) = plane.admin.merge(&kept, &json!({"data": {"k": "other"}})).await;
    assert_eq!((code, &status["reason"]), (401, &json!("Unauthorized")), "{status}");
    assert_eq!(plane.admin.merge(&kept, &json!({"data": {"l": "other"}})).await.0, 200);
    let mut long = map("long");
    long["data"]["k"] = "long".into();
    let (code, status) = plane.admin.post(MAPS, &long).await;
    assert_eq!((code, &status["reason"]), (413, &json!("RequestEntityTooLarge")), "{status}");
    assert_eq!(plane.admin.post(&format!("{MAPS}?dryRun=All"), &map("dry")).await.0, 422);
    plane.admin.make(MAPS, &map("short")).await;
    assert_eq!(plane.admin.delete(&format!("{MAPS}/short"), &Value::Null).await.0, 200);
    let (code, _) = plane.admin.delete(MAPS, &Value::Null).await;
    assert_eq!(code, 403, "also in a collection");
    plane.server.shutdown().await;
}

#[tokio::test]
async fn rules_and_conditions_narrow_a_policy() {
    let plane = TestPlane::start().await;
    let never = json!([{"expression": "false", "message": "never"}]);
    let mut named = rule("", "configmaps");
    named["resourceNames"] = json!(["named"]);
    let mut excluded = rule("", "configmaps");
    excluded["operations"] = json!(["UPDATE"]);
    bound(
        &plane,
        "names",
        json!({"validations": never, "matchConstraints": {
            "resourceRules": [named], "excludeResourceRules": [excluded],
        }}),
    )
    .await;
    assert_eq!(plane.admin.post(MAPS, &map("named")).await.0, 422);
    plane.admin.make(MAPS, &map("free")).await;
    plane.admin.delete(&format!("{POLICIES}/names"), &Value::Null).await;
    plane.admin.make(MAPS, &map("named")).await;

    bound(
        &plane,
        "conditions",
        json!({"validations": never, "matchConditions": [
            {"name": "labelled", "expression": "has(object.metadata.labels)"},
            {"name": "broken", "expression": "object.metadata.labels.kind == 'x'"},
        ]}),
    )
    .await;
    plane.admin.make(MAPS, &map("unlabelled")).await;
    let with = |name: &str, labels: Value| {
        let mut object = map(name);
        object["metadata"]["labels"] = labels;
        object
    };
    plane.admin.make(MAPS, &with("other", json!({"kind": "y"}))).await;
    let (_, status) = plane.admin.post(MAPS, &with("a", json!({"kind": "x"}))).await;
    assert!(message(&status).ends_with("denied request: never"), "{status}");
    let (code, status) = plane.admin.post(MAPS, &with("a", json!({"a": "b"}))).await;
    assert_eq!(code, 422);
    assert!(
        message(&status).ends_with(
            "expression 'object.metadata.labels.kind == 'x'' resulted in error: no such key: kind"
        ),
        "{status}"
    );
    // Errors admit if the policy says so; what is false does not.
    plane.admin.merge(&format!("{POLICIES}/conditions"), &json!({"spec": {"failurePolicy": "Ignore"}})).await;
    plane.admin.make(MAPS, &with("a", json!({"a": "b"}))).await;
    assert_eq!(plane.admin.post(MAPS, &with("b", json!({"kind": "x"}))).await.0, 422);
    plane.server.shutdown().await;
}

#[tokio::test]
async fn failures_of_expressions_follow_the_failure_policy() {
    let plane = TestPlane::start().await;
    bound(&plane, "broken", json!({"validations": [{"expression": "object.data.absent == 'x'"}]})).await;
    let (code, status) = plane.admin.post(MAPS, &map("a")).await;
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
    assert!(message(&status).ends_with("resulted in error: no such key: absent"), "{status}");
    // The field of an object that is absent is an error, not false.
    let spec = json!({"spec": {"validations": [{"expression": "!oldObject.immutable"}]}});
    plane.admin.merge(&format!("{POLICIES}/broken"), &spec).await;
    assert_eq!(plane.admin.post(MAPS, &map("a")).await.0, 422);
    plane.admin.merge(&format!("{POLICIES}/broken"), &json!({"spec": {"failurePolicy": "Ignore"}})).await;
    plane.admin.make(MAPS, &map("a")).await;
    // An expression cannot take for ever.
    let keys = "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, true))))";
    let spec = json!({"spec": {"failurePolicy": "Fail", "validations": [{"expression": keys}]}});
    assert_eq!(plane.admin.merge(&format!("{POLICIES}/broken"), &spec).await.0, 200);
    let mut many = map("many");
    many["data"] = (0..500).map(|i| (format!("k{i}"), json!("v"))).collect();
    let (code, status) = plane.admin.post(MAPS, &many).await;
    assert_eq!(code, 422);
    assert!(message(&status).contains("cost limit exceeded"), "{status}");
    plane.server.shutdown().await;
}

#[tokio::test]
async fn actions_warn_and_note() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let mut options = Options::new(Storage::Memory);
    options.audit_log = Some(path.clone());
    let plane = TestPlane::open(options).await;
    let spec = json!({
        "validations": [{"expression": "oldObject != null && request.operation == 'UPDATE'", "message": "mind \"this\""}],
        "auditAnnotations": [
            {"key": "name", "valueExpression": "'it is ' + request.name"},
            {"key": "none", "valueExpression": "null"},
        ],
    });
    plane.admin.make(POLICIES, &policy("soft", ("", "configmaps"), spec)).await;
    plane.admin.make(BINDINGS, &binding("soft", &["Warn", "Audit"])).await;
    for (method, path, body) in
        [("POST", MAPS.to_owned(), map("a")), ("DELETE", format!("{MAPS}/a"), Value::Null)]
    {
        let response = plane.admin.send(method, &path, "application/json", &body).await;
        assert!(response.status().is_success());
        assert_eq!(
            response.headers()["warning"],
            "299 - \"Validation failed for ValidatingAdmissionPolicy 'soft' with binding 'soft-binding': mind \\\"this\\\"\""
        );
        response.into_body().collect().await.unwrap();
    }
    let text = || std::fs::read_to_string(&path).unwrap();
    let events = || {
        let events = text().lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
        events.into_iter().filter(|event| event["annotations"].is_object()).collect::<Vec<_>>()
    };
    eventually("both are noted", || async { events().len() == 2 }).await;
    let annotations = &events()[0]["annotations"];
    assert_eq!(annotations["soft/name"], "it is a");
    let failures = annotations["validation.policy.admission.k8s.io/validation_failure"].as_str().unwrap();
    let expected = json!([{
        "message": "mind \"this\"", "policy": "soft", "binding": "soft-binding", "expressionIndex": 0,
        "validationActions": ["Warn", "Audit"],
    }]);
    assert_eq!(serde_json::from_str::<Value>(failures).unwrap(), expected);
    assert_eq!(annotations.as_object().unwrap().len(), 2);
    plane.server.shutdown().await;
}

#[tokio::test]
async fn parameters_are_objects() {
    let plane = TestPlane::start().await;
    plane.admin.make(CRDS, &widgets()).await;
    let spec = |kind: Value| {
        json!({"paramKind": kind, "validations": [
            {"expression": "params == null || size(object.data.k) <= int(params.data.most)", "messageExpression": "'at most ' + params.data.most"},
        ]})
    };
    let limits = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let rules = json!({"matchConstraints": {"resourceRules": [rule("", "configmaps")], "objectSelector": {"matchLabels": {"limited": "yes"}}}});
    let mut limited = spec(limits);
    limited["matchConstraints"] = rules["matchConstraints"].clone();
    bound(&plane, "limits", limited).await;
    let with = |name: &str, text: &str| json!({"metadata": {"name": name, "labels": {"limited": "yes"}}, "data": {"k": text}});
    // A binding without parameters evaluates with null.
    plane.admin.make(MAPS, &with("null", "abcdef")).await;
    let reference = |params: Value| json!({"spec": {"paramRef": params}});
    let at = format!("{BINDINGS}/limits-binding");
    let (code, _) =
        plane.admin.merge(&at, &reference(json!({"name": "limit", "parameterNotFoundAction": "Deny"}))).await;
    assert_eq!(code, 200);
    let (code, status) = plane.admin.post(MAPS, &with("a", "abc")).await;
    assert_eq!(code, 422);
    let missing =
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert!(message(&status).ends_with(missing), "{status}");
    plane.admin.merge(&at, &reference(json!({"parameterNotFoundAction": "Allow"}))).await;
    plane.admin.make(MAPS, &with("a", "abc")).await;
    let limit = |name: &str, most: &str| json!({"metadata": {"name": name, "labels": {"limit": "yes"}}, "data": {"most": most}});
    plane.admin.make(MAPS, &limit("limit", "4")).await;
    let (_, status) = plane.admin.post(MAPS, &with("b", "abcde")).await;
    assert!(message(&status).ends_with("denied request: at most 4"), "{status}");
    plane.admin.make(MAPS, &with("b", "abcd")).await;
    // By selector: all of them, in another namespace.
    plane.admin.make(NAMESPACES, &json!({"metadata": {"name": "limits"}})).await;
    for (name, most) in [("one", "5"), ("two", "2")] {
        plane.admin.make("/api/v1/namespaces/limits/configmaps", &limit(name, most)).await;
    }
    let selector = json!({
        "name": null, "namespace": "limits", "selector": {"matchLabels": {"limit": "yes"}}, "parameterNotFoundAction": "Deny",
    });
    assert_eq!(plane.admin.merge(&at, &reference(selector)).await.0, 200);
    let (_, status) = plane.admin.post(MAPS, &with("c", "abc")).await;
    assert!(message(&status).ends_with("denied request: at most 2"), "{status}");
    plane.admin.make(MAPS, &with("c", "ab")).await;

    // A custom resource, and a kind that is not served.
    let kind = json!({"apiVersion": "example.com/v1", "kind": "Widget"});
    let validations = json!([{"expression": "params.spec.size == 'L'"}]);
    plane
        .admin
        .merge(
            &format!("{POLICIES}/limits"),
            &json!({"spec": {"paramKind": kind, "validations": validations}}),
        )
        .await;
    plane.admin.make(WIDGETS, &widget("w", json!({"size": "S"}))).await;
    let by_name =
        json!({"name": "w", "namespace": "default", "selector": null, "parameterNotFoundAction": "Deny"});
    plane.admin.merge(&at, &reference(by_name)).await;
    assert_eq!(plane.admin.post(MAPS, &with("d", "a")).await.0, 422);
    plane.admin.merge(&format!("{WIDGETS}/w"), &json!({"spec": {"size": "L"}})).await;
    plane.admin.make(MAPS, &with("d", "a")).await;
    plane.admin.delete(&format!("{CRDS}/widgets.example.com"), &Value::Null).await;
    plane.admin.gone(&format!("{CRDS}/widgets.example.com")).await;
    let (code, status) = plane.admin.post(MAPS, &with("e", "a")).await;
    assert_eq!(code, 422);
    assert!(
        message(&status)
            .contains("failed to find resource referenced by paramKind: 'example.com/v1, Kind=Widget'"),
        "{status}"
    );
    plane.server.shutdown().await;
}

#[tokio::test]
async fn parameters_must_be_readable_for_the_author() {
    let plane = TestPlane::start().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    plane
        .admin
        .make(
            &format!("{roles}/clusterroles"),
            &json!({"metadata": {"name": "author"}, "rules": [
                {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]},
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
            ]}),
        )
        .await;
    plane.admin.make(&format!("{roles}/clusterrolebindings"), &json!({
        "metadata": {"name": "author"}, "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "ClusterRole", "name": "author", "apiGroup": "rbac.authorization.k8s.io"},
    })).await;
    let jane = plane.caller(User::new("jane", ["people"]));
    let spec = |kind: &str| json!({"paramKind": {"apiVersion": "v1", "kind": kind}, "validations": [{"expression": "params != null"}]});
    let (code, status) = jane.post(POLICIES, &policy("secrets", ("", "configmaps"), spec("Secret"))).await;
    assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!("spec.paramKind")), "{status}");
    assert!(
        message(&status).contains("must have \"get\" permission on all objects of the referenced paramKind")
    );
    jane.make(POLICIES, &policy("maps", ("", "configmaps"), spec("ConfigMap"))).await;
    let mut by_selector = binding("maps", &["Deny"]);
    by_selector["spec"]["paramRef"] = json!({"selector": {}, "parameterNotFoundAction": "Deny"});
    let (code, status) = jane.post(BINDINGS, &by_selector).await;
    assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!("spec.paramRef")), "{status}");
    by_selector["spec"]["paramRef"] = json!({"name": "limit", "parameterNotFoundAction": "Deny"});
    jane.make(BINDINGS, &by_selector).await;
    plane.server.shutdown().await;
}

#[tokio::test]
async fn the_authorizer_decides_for_the_user() {
    let plane = TestPlane::start().await;
    let check = "authorizer.group('').resource('configmaps').namespace('default').check('deletecollection').allowed()";
    let own = "authorizer.requestResource.check('create').allowed()";
    bound(
        &plane,
        "rights",
        json!({"validations": [{"expression": own}, {"expression": check, "message": "not you"}]}),
    )
    .await;
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    let makers = json!({"metadata": {"name": "makers"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]});
    plane.admin.make(&format!("{roles}/clusterroles"), &makers).await;
    plane.admin.make(&format!("{roles}/clusterrolebindings"), &json!({
        "metadata": {"name": "makers"}, "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "ClusterRole", "name": "makers", "apiGroup": "rbac.authorization.k8s.io"},
    })).await;
    let (code, status) = plane.caller(User::new("jane", ["people"])).post(MAPS, &map("a")).await;
    assert!(code == 422 && message(&status).ends_with("not you"), "{status}");
    plane.admin.make(MAPS, &map("a")).await;
    plane.server.shutdown().await;
}

#[tokio::test]
async fn policies_can_always_be_corrected() {
    let plane = TestPlane::start().await;
    let everything = json!({"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]});
    let spec = json!({"matchConstraints": everything, "validations": [{"expression": "false"}]});
    bound(&plane, "lockout", spec).await;
    assert_eq!(plane.admin.post(MAPS, &map("a")).await.0, 422);
    assert_eq!(plane.admin.post(NAMESPACES, &json!({"metadata": {"name": "x"}})).await.0, 422);
    plane
        .admin
        .make(
            POLICIES,
            &policy("another", ("", "configmaps"), json!({"validations": [{"expression": "true"}]})),
        )
        .await;
    assert_eq!(plane.admin.delete(&format!("{BINDINGS}/lockout-binding"), &Value::Null).await.0, 200);
    plane.admin.make(MAPS, &map("a")).await;
    plane.server.shutdown().await;
}

#[tokio::test]
async fn a_policy_does_not_keep_the_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options::new(Storage::Folder(folder.path().to_owned()));
    let plane = TestPlane::open(options()).await;
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin";
    let rules =
        json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*"]}]);
    bound(
        &plane,
        "lockout",
        json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "false"}]}),
    )
    .await;
    assert_eq!(plane.admin.delete(role, &Value::Null).await.0, 200);
    plane.server.shutdown().await;
    drop(plane);
    let plane = TestPlane::open(options()).await;
    assert_eq!(plane.admin.get(role).await.0, 200);
    assert_eq!(plane.admin.post(MAPS, &map("a")).await.0, 422);
    plane.server.shutdown().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_policy_is_said() {
    let plane = TestPlane::start().await;
    let good =
        policy("good", ("", "configmaps"), json!({"validations": [{"expression": "object.data.k == 'a'"}]}));
    let with = |path: &str, value: Value| {
        let mut policy = good.clone();
        let (parent, field) = path.rsplit_once('/').unwrap();
        policy.pointer_mut(parent).unwrap()[field] = value;
        policy
    };
    let compile = "compilation failed: undeclared reference to 'nope' (in container '')";
    let needed = "validations or auditAnnotations must contain at least one item";
    let cases = [
        (with("/spec/matchConstraints", Value::Null), "spec.matchConstraints", "Required value".to_owned()),
        (
            with("/spec/matchConstraints/resourceRules", json!([])),
            "spec.matchConstraints.resourceRules",
            "Required value".to_owned(),
        ),
        (with("/spec/validations", json!([])), "spec.validations", format!("Required value: {needed}")),
        (
            with("/spec/validations", json!([{"expression": "nope"}])),
            "spec.validations[0].expression",
            format!("Invalid value: \"nope\": {compile}"),
        ),
        (
            with("/spec/validations", json!([{"expression": "'x'"}])),
            "spec.validations[0].expression",
            "must evaluate to bool".to_owned(),
        ),
        (
            with("/spec/validations", json!([{"expression": "variables.x"}])),
            "spec.validations[0].expression",
            "undeclared reference to 'variables'".to_owned(),
        ),
        (
            with("/spec/validations", json!([{"expression": "true", "messageExpression": "1"}])),
            "spec.validations[0].messageExpression",
            "must evaluate to string".to_owned(),
        ),
        (
            with("/spec/validations", json!([{"expression": "true", "message": "a\nb"}])),
            "spec.validations[0].message",
            "must not contain line breaks".to_owned(),
        ),
        (
            with("/spec/validations", json!([{"expression": "true", "reason": "Teapot"}])),
            "spec.validations[0].reason",
            "Unsupported value: \"Teapot\"".to_owned(),
        ),
        (
            with("/spec/variables", json!([{"name": "1a", "expression": "1"}])),
            "spec.variables[0].name",
            "must be a valid CEL identifier".to_owned(),
        ),
        (
            with(
                "/spec/variables",
                json!([{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]),
            ),
            "spec.variables[0].expression",
            "undeclared reference".to_owned(),
        ),
        (
            with("/spec/failurePolicy", json!("Perhaps")),
            "spec.failurePolicy",
            "Unsupported value: \"Perhaps\"".to_owned(),
        ),
        (
            with("/spec/paramKind", json!({"kind": "ConfigMap"})),
            "spec.paramKind.apiVersion",
            "Required value".to_owned(),
        ),
        (
            with("/spec/auditAnnotations", json!([{"key": "a b", "valueExpression": "'x'"}])),
            "spec.auditAnnotations[0].key",
            "name part must consist of".to_owned(),
        ),
        (
            with("/spec/matchConditions", json!([{"name": "a", "expression": "variables.x"}])),
            "spec.matchConditions[0].expression",
            "undeclared reference to 'variables'".to_owned(),
        ),
        (
            with(
                "/spec/matchConstraints/resourceRules",
                json!([{"apiGroups": ["*", "a"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["a"]}]),
            ),
            "spec.matchConstraints.resourceRules[0].apiGroups",
            "if '*' is present, must not specify other API groups".to_owned(),
        ),
    ];
    for (policy, field, text) in cases {
        let (code, status) = plane.admin.post(POLICIES, &policy).await;
        let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
        let cause = causes.iter().find(|cause| cause["field"] == field);
        let found = cause.and_then(|cause| cause["message"].as_str()).unwrap_or_default();
        assert!(code == 422 && found.contains(&text), "{field}: {text}: {status}");
    }
    plane.admin.make(POLICIES, &good).await;

    let bound = binding("good", &["Deny"]);
    let with = |field: &str, value: Value| {
        let mut binding = bound.clone();
        binding["spec"][field] = value;
        binding
    };
    let both = json!({"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"});
    for (binding, field, text) in [
        (with("policyName", json!("")), "spec.policyName", "Required value"),
        (
            with("validationActions", json!([])),
            "spec.validationActions",
            "Required value: at least one validation action is required",
        ),
        (
            with("validationActions", json!(["Deny", "Warn"])),
            "spec.validationActions",
            "must not contain both Deny and Warn",
        ),
        (
            with("validationActions", json!(["Shout"])),
            "spec.validationActions[0]",
            "Unsupported value: \"Shout\"",
        ),
        (
            with("validationActions", json!(["Audit", "Audit"])),
            "spec.validationActions[1]",
            "Duplicate value: \"Audit\"",
        ),
        (with("paramRef", both), "spec.paramRef.name", "Forbidden: name and selector are mutually exclusive"),
        (
            with("paramRef", json!({"parameterNotFoundAction": "Deny"})),
            "spec.paramRef",
            "Required value: one of name or selector must be specified",
        ),
        (with("paramRef", json!({"name": "a"})), "spec.paramRef.parameterNotFoundAction", "Required value"),
    ] {
        let (code, status) = plane.admin.post(BINDINGS, &binding).await;
        let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
        let cause = causes.iter().find(|cause| cause["field"] == field);
        let found = cause.and_then(|cause| cause["message"].as_str()).unwrap_or_default();
        assert!(code == 422 && found.contains(text), "{field}: {text}: {status}");
    }
    plane.admin.make(BINDINGS, &bound).await;
    plane.server.shutdown().await;
}

#[tokio::test]
async fn expressions_are_type_checked() {
    let plane = TestPlane::start().await;
    let checked = |name: &'static str| {
        let admin = plane.admin.clone();
        async move {
            let mut status = Value::Null;
            for _ in 0..1000 {
                let (_, policy) = admin.get(&format!("{POLICIES}/{name}")).await;
                status = policy["status"].clone();
                if status["observedGeneration"] == policy["metadata"]["generation"] {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            status
        }
    };
    let fine = json!({"validations": [{"expression": "object.spec.replicas > 1"}]});
    plane.admin.make(POLICIES, &policy("fine", ("apps", "deployments"), fine)).await;
    assert_eq!(checked("fine").await, json!({"observedGeneration": 1, "typeChecking": {}}));
    let confused = json!({"validations": [{
        "expression": "object.spec.replicas > '1'", "messageExpression": "'wants replicas > 1, got ' + object.spec.replicas",
    }]});
    plane.admin.make(POLICIES, &policy("confused", ("apps", "deployments"), confused)).await;
    let status = checked("confused").await;
    let warnings = status["typeChecking"]["expressionWarnings"].as_array().unwrap();
    let expected = [
        ("spec.validations[0].expression", "found no matching overload for '_>_' applied to '(int, string)'"),
        (
            "spec.validations[0].messageExpression",
            "found no matching overload for '_+_' applied to '(string, int)'",
        ),
    ];
    assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
    for (warning, (field, text)) in warnings.iter().zip(expected) {
        assert_eq!(warning["fieldRef"], field);
        let warning = warning["warning"].as_str().unwrap();
        assert!(warning.starts_with("apps/v1, Kind=Deployment: ") && warning.contains(text), "{warning}");
    }
    // A custom resource.
    plane.admin.make(CRDS, &widgets()).await;
    let crd = json!({"validations": [
        {"expression": "object.spec.replicas > '1'"}, {"expression": "object.spec.maxRetries < 10"}, {"expression": "object.spec.size == 'L'"},
    ]});
    plane.admin.make(POLICIES, &policy("crd", ("example.com", "widgets"), crd)).await;
    let status = checked("crd").await;
    let warnings = status["typeChecking"]["expressionWarnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[1]["warning"].as_str().unwrap().contains("undefined field 'maxRetries'"));
    // The next generation is checked again.
    let (_, policy) = plane
        .admin
        .merge(&format!("{POLICIES}/crd"), &json!({"spec": {"validations": [{"expression": "true"}]}}))
        .await;
    assert_eq!(policy["metadata"]["generation"], 2);
    assert_eq!(checked("crd").await, json!({"observedGeneration": 2, "typeChecking": {}}));
    plane.server.shutdown().await;
}

/// What the specs of conformance do with each of the two resources.
async fn operations(plane: &TestPlane, path: &str, object: &Value, patch: &Value) {
    let admin = &plane.admin;
    let mut names = Vec::new();
    for _ in 0..3 {
        let made = admin.make(path, object).await;
        names.push(made["metadata"]["name"].as_str().unwrap().to_owned());
    }
    let one = format!("{path}/{}", names[2]);
    let (_, read) = admin.get(&one).await;
    assert_eq!(read["metadata"]["generation"], 1);
    let (_, list) = admin.get(&format!("{path}?labelSelector=special%3Dyes")).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = admin
        .watch(&format!("{path}?watch=true&labelSelector=special%3Dyes&resourceVersion={version}"))
        .await;
    let (code, patched) = admin.merge(&one, patch).await;
    assert_eq!((code, &patched["metadata"]["annotations"]["patched"]), (200, &json!("true")), "{patched}");
    assert_eq!(patched["metadata"]["generation"], 2);
    loop {
        let event = watch.next().await.unwrap();
        assert_eq!(event["type"], "MODIFIED");
        if event["object"]["metadata"]["annotations"]["patched"] == "true" {
            break;
        }
    }
    let (mut code, mut updated) = (0, Value::Null);
    for _ in 0..100 {
        let (_, mut current) = admin.get(&one).await;
        current["metadata"]["annotations"]["updated"] = "true".into();
        (code, updated) = admin.put(&one, &current).await;
        if code != 409 {
            break;
        }
    }
    assert_eq!((code, &updated["metadata"]["annotations"]["updated"]), (200, &json!("true")), "{updated}");
    assert_eq!(admin.delete(&one, &Value::Null).await.0, 200);
    assert_eq!(admin.get(&one).await.0, 404);
    let collection = format!("{path}?labelSelector=special%3Dyes");
    assert_eq!(admin.get(&collection).await.1["items"].as_array().unwrap().len(), 2);
    assert_eq!(admin.delete(&collection, &Value::Null).await.0, 200);
    assert_eq!(admin.get(&collection).await.1["items"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn the_api_of_policies_and_bindings() {
    let plane = TestPlane::start().await;
    let (_, resources) = plane.admin.get(GROUP).await;
    let names: Vec<&str> =
        resources["resources"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    for name in [
        "validatingadmissionpolicies",
        "validatingadmissionpolicies/status",
        "validatingadmissionpolicybindings",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    let metadata = json!({"generateName": "e2e-", "labels": {"special": "yes"}});
    let mut template = policy(
        "",
        ("apps", "deployments"),
        json!({"validations": [{"expression": "object.spec.replicas <= 100"}]}),
    );
    template["metadata"] = metadata.clone();
    let patch =
        json!({"metadata": {"annotations": {"patched": "true"}}, "spec": {"failurePolicy": "Ignore"}});
    operations(&plane, POLICIES, &template, &patch).await;
    let bound = json!({"metadata": metadata, "spec": {"policyName": "limit.example.com", "validationActions": ["Deny"]}});
    let patch =
        json!({"metadata": {"annotations": {"patched": "true"}}, "spec": {"validationActions": ["Warn"]}});
    operations(&plane, BINDINGS, &bound, &patch).await;

    // The status is a side of its own.
    let made = plane.admin.make(POLICIES, &template).await;
    let status = format!("{POLICIES}/{}/status", made["metadata"]["name"].as_str().unwrap());
    let (code, read) = plane.admin.get(&status).await;
    assert_eq!(
        (code, &read["kind"], &read["metadata"]["uid"]),
        (200, &json!("ValidatingAdmissionPolicy"), &made["metadata"]["uid"])
    );
    let condition = json!({
        "type": "PatchStatusFailed", "status": "False", "reason": "e2e", "message": "m", "lastTransitionTime": "2024-01-01T00:00:00Z",
    });
    let (code, patched) = plane
        .admin
        .merge(&status, &json!({"status": {"conditions": [condition]}, "spec": {"failurePolicy": "Ignore"}}))
        .await;
    assert_eq!(
        (code, &patched["status"]["conditions"][0]["type"]),
        (200, &json!("PatchStatusFailed")),
        "{patched}"
    );
    assert_eq!(patched["spec"]["failurePolicy"], "Fail");

    // kubectl's columns.
    plane.admin.make(BINDINGS, &json!({"metadata": {"name": "b"}, "spec": {
        "policyName": "p", "validationActions": ["Deny"], "paramRef": {"name": "x", "parameterNotFoundAction": "Deny"},
    }})).await;
    for (path, columns, cells) in [
        (
            POLICIES,
            ["Name", "Validations", "ParamKind", "Age"],
            [made["metadata"]["name"].clone(), json!(1), json!("<unset>")],
        ),
        (BINDINGS, ["Name", "PolicyName", "ParamRef", "Age"], [json!("b"), json!("p"), json!("*/x")]),
    ] {
        let request =
            http::Request::get(path).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
        let request = request.body(http_body_util::Full::new(bytes::Bytes::new())).unwrap();
        let response = tower_service::Service::call(&mut plane.admin.0.clone(), request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let table: Value = serde_json::from_slice(&body).unwrap();
        let names: Vec<&Value> =
            table["columnDefinitions"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
        assert_eq!(names, columns);
        assert_eq!(table["rows"][0]["cells"].as_array().unwrap()[..3], cells);
    }
    plane.server.shutdown().await;
}
