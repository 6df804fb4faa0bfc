//! MutatingAdmissionPolicies: what they see, what they change, and what the API says of them.

use crate::support::{CRDS, MAPS, TestPlane, WIDGETS, map, webhook::Webhook, widget, widgets};
use base64::{Engine, engine::general_purpose::STANDARD};
use capstan_apiserver::{Options, Storage, User};
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const NAMESPACES: &str = "/api/v1/namespaces";

fn rule(group: &str, resource: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]})
}

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// A policy with this spec for a resource.
fn policy(name: &str, resource: (&str, &str), spec: &Value) -> Value {
    let mut policy = json!({"metadata": {"name": name}, "spec": {
        "reinvocationPolicy": "Never", "matchConstraints": {"resourceRules": [rule(resource.0, resource.1)]},
    }});
    for (field, value) in spec.as_object().unwrap() {
        policy["spec"][field] = value.clone();
    }
    policy
}

fn binding(name: &str) -> Value {
    json!({"metadata": {"name": format!("{name}-binding")}, "spec": {"policyName": name}})
}

/// Makes a policy for a resource and binds it.
async fn bound(plane: &TestPlane, name: &str, resource: (&str, &str), spec: &Value) {
    plane.admin.make(POLICIES, &policy(name, resource, spec)).await;
    plane.admin.make(BINDINGS, &binding(name)).await;
}

/// The same for ConfigMaps, with one mutation.
async fn mutated(plane: &TestPlane, name: &str, mutation: &Value) {
    bound(plane, name, ("", "configmaps"), &json!({"mutations": [mutation]})).await;
}

fn deployment(name: &str, replicas: i64) -> Value {
    let labels = json!({"app": "nginx"});
    let containers = json!([
        {"name": "nginx", "image": "registry.k8s.io/nginx:1", "args": ["-g"], "env": [{"name": "A", "value": "1"}]},
        {"name": "other", "image": "registry.k8s.io/other:1"},
    ]);
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    })
}

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap_or_default()
}

/// Adds to `data.k` of a ConfigMap.
fn append(text: &str) -> Value {
    apply(&format!("Object{{data: {{'k': object.data.k + '{text}'}}}}"))
}

#[tokio::test]
async fn a_deployment_is_changed() {
    let plane = TestPlane::start().await;
    let mutations = json!([
        apply("Object{metadata: Object.metadata{annotations: {'mutated-by': 'admission-policy'}}}"),
        apply("Object{spec: Object.spec{replicas: object.spec.replicas + 1}}"),
        apply(
            "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
                containers: [Object.spec.template.spec.containers{
                    name: 'nginx',
                    env: [Object.spec.template.spec.containers.env{name: 'B', value: '2'}]
                }]
            }}}}"
        ),
        patch(
            "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/x'), value: 'y'}]"
        ),
    ]);
    plane.admin.make(POLICIES, &policy("a", ("apps", "deployments"), &json!({"mutations": mutations}))).await;
    let unbound = plane.admin.make(DEPLOYMENTS, &deployment("unbound", 1)).await;
    assert_eq!(unbound["spec"]["replicas"], 1);
    plane.admin.make(BINDINGS, &binding("a")).await;
    let made = plane.admin.make(DEPLOYMENTS, &deployment("bound", 1)).await;
    assert_eq!(made["metadata"]["annotations"], json!({"mutated-by": "admission-policy"}));
    assert_eq!(made["metadata"]["labels"], json!({"app": "nginx", "example.com/x": "y"}));
    assert_eq!(made["spec"]["replicas"], 2);
    let containers = &made["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[0]["env"], json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]));
    assert_eq!((&containers[0]["args"], &containers[1]["name"]), (&json!(["-g"]), &json!("other")));
    // The field manager of the request owns what it sent. What a policy added has no owner.
    let managed = made["metadata"]["managedFields"].to_string();
    assert!(managed.contains("f:replicas") && !managed.contains("mutated-by"), "{managed}");
    let (code, changed) =
        plane.admin.merge(&format!("{DEPLOYMENTS}/bound"), &json!({"spec": {"replicas": 5}})).await;
    assert_eq!((code, &changed["spec"]["replicas"]), (200, &json!(6)));
    assert_eq!(changed["metadata"]["generation"], 2);
    // A dry run shows it and stores nothing.
    let (code, dry) = plane.admin.post(&format!("{DEPLOYMENTS}?dryRun=All"), &deployment("dry", 1)).await;
    assert_eq!((code, &dry["spec"]["replicas"]), (201, &json!(2)));
    assert_eq!(plane.admin.get(&format!("{DEPLOYMENTS}/dry")).await.0, 404);
    // A deletion changes nothing, and is not rejected.
    assert_eq!(plane.admin.delete(&format!("{DEPLOYMENTS}/bound"), &Value::Null).await.0, 200);
    plane.server.shutdown().await;
}

#[tokio::test]
async fn a_scale_is_changed() {
    let plane = TestPlane::start().await;
    plane.admin.make(DEPLOYMENTS, &deployment("a", 1)).await;
    let most =
        apply("Object{spec: Object.spec{replicas: object.spec.replicas > 3 ? 3 : object.spec.replicas}}");
    bound(&plane, "most", ("apps", "deployments/scale"), &json!({"mutations": [most]})).await;
    let at = format!("{DEPLOYMENTS}/a");
    let (code, scale) = plane.admin.merge(&format!("{at}/scale"), &json!({"spec": {"replicas": 9}})).await;
    assert_eq!((code, &scale["spec"]["replicas"]), (200, &json!(3)), "{scale}");
    assert_eq!(plane.admin.get(&at).await.1["spec"]["replicas"], 3);
    plane.server.shutdown().await;
}

#[tokio::test]
async fn policies_run_in_order_and_see_what_others_made() {
    let plane = TestPlane::start().await;
    mutated(&plane, "b", &append("b")).await;
    mutated(&plane, "a", &append("a")).await;
    let seen = json!({
        "variables": [{"name": "ends", "expression": "object.data.k.endsWith('ab')"}],
        "matchConditions": [{"name": "operation", "expression": "request.operation == 'CREATE'"}],
        "mutations": [apply(
            "variables.ends ? Object{data: {'k': object.data.k + 'c' + namespaceObject.metadata.name}} : Object{}"
        )],
    });
    bound(&plane, "c", ("", "configmaps"), &seen).await;
    let made = plane.admin.make(MAPS, &map("m")).await;
    assert_eq!(made["data"]["k"], "vabcdefault");
    let (_, changed) = plane.admin.merge(&format!("{MAPS}/m"), &json!({"data": {"k": "w"}})).await;
    assert_eq!(changed["data"]["k"], "wab");
    // Validating policies and storage see the result; old objects are not changed.
    let old = apply("Object{data: {'k': oldObject.data.k}}");
    bound(&plane, "d", ("", "configmaps"), &json!({
        "mutations": [old], "matchConditions": [{"name": "update", "expression": "request.operation == 'UPDATE'"}],
    }))
    .await;
    let (_, changed) = plane.admin.merge(&format!("{MAPS}/m"), &json!({"data": {"k": "x"}})).await;
    assert_eq!(changed["data"]["k"], "wab");
    plane.server.shutdown().await;
}

#[tokio::test]
async fn failures_follow_the_failure_policy() {
    let plane = TestPlane::start().await;
    let at = format!("{POLICIES}/p");
    mutated(&plane, "p", &apply("Object{data: {'k': object.data.absent}}")).await;
    let denied = "policy 'p' with binding 'p-binding' denied request: ";
    let (code, status) = plane.admin.post(MAPS, &map("a")).await;
    assert_eq!((code, &status["reason"], &status["code"]), (403, &json!("Invalid"), &json!(403)), "{status}");
    let expected = format!(
        "{denied}expression 'Object{{data: {{'k': object.data.absent}}}}' resulted in error: no such key: absent"
    );
    assert_eq!(message(&status), expected);
    assert_eq!(
        status["details"],
        json!({"name": "a", "kind": "configmaps", "causes": [{"message": expected}]})
    );
    let wrong = [
        (
            apply("Object{data: {'k': 1}}"),
            "error applying patch: failed to convert patch object to typed object: .data.k: expected string, got int64",
        ),
        (
            apply("Object{nope: 1}"),
            "error applying patch: failed to convert patch object to typed object: .nope: field not declared in schema",
        ),
        (
            apply("Object{metadata: Object{}}"),
            "type mismatch: unexpected type name \"Object\", expected \"Object.metadata\", which matches field name path \
             from root Object type",
        ),
        (
            patch("[JSONPatch{op: 'remove', path: '/data/absent'}]"),
            "JSON Patch: error in remove for path: '/data/absent': Unable to remove nonexistent key: absent: missing value",
        ),
        (patch("[JSONPatch{op: 'dance', path: '/data'}]"), "JSON Patch: Unexpected kind: dance"),
    ];
    for (mutation, why) in wrong {
        let (code, policy) = plane.admin.merge(&at, &json!({"spec": {"mutations": [mutation]}})).await;
        assert_eq!(code, 200, "{policy}");
        let (code, status) = plane.admin.post(MAPS, &map("a")).await;
        assert_eq!((code, message(&status)), (403, format!("{denied}{why}").as_str()));
    }
    // All failures are causes; the first one is the message.
    let two = json!([apply("Object{nope: 1}"), apply("Object{neither: 1}")]);
    plane.admin.merge(&at, &json!({"spec": {"mutations": two}})).await;
    let (_, status) = plane.admin.post(MAPS, &map("a")).await;
    assert_eq!(status["details"]["causes"].as_array().unwrap().len(), 2);
    // A failure that is ignored has no effect, and others have.
    let ignored = json!({"failurePolicy": "Ignore", "mutations": [apply("Object{nope: 1}"), append("b")]});
    plane.admin.merge(&at, &json!({"spec": ignored})).await;
    assert_eq!(plane.admin.make(MAPS, &map("a")).await["data"]["k"], "vb");
    // So does a match condition that fails.
    let broken = json!([{"name": "broken", "expression": "object.data.absent == 'x'"}]);
    plane.admin.merge(&at, &json!({"spec": {"failurePolicy": "Fail", "matchConditions": broken}})).await;
    let (code, status) = plane.admin.post(MAPS, &map("b")).await;
    assert_eq!(code, 403);
    let why = "expression 'object.data.absent == 'x'' resulted in error: no such key: absent";
    assert_eq!(message(&status), format!("{denied}{why}"));
    plane.admin.merge(&at, &json!({"spec": {"failurePolicy": "Ignore"}})).await;
    assert_eq!(plane.admin.make(MAPS, &map("b")).await["data"]["k"], "v");
    plane.server.shutdown().await;
}

#[tokio::test]
async fn what_is_no_object_any_more_is_an_error_of_the_server() {
    let plane = TestPlane::start().await;
    mutated(&plane, "p", &patch("[JSONPatch{op: 'add', path: '/nope', value: 1}]")).await;
    let (code, status) = plane.admin.post(MAPS, &map("a")).await;
    assert_eq!(code, 500, "{status}");
    assert_eq!(message(&status), "Internal error occurred: strict decoding error: unknown field \"nope\"");
    for step in [
        "op: 'replace', path: '/kind', value: 'Secret'",
        "op: 'remove', path: '/apiVersion'",
        "op: 'replace', path: '/data', value: [1]",
        "op: 'replace', path: '', value: [1]",
    ] {
        let mutation = patch(&format!("[JSONPatch{{{step}}}]"));
        plane.admin.merge(&format!("{POLICIES}/p"), &json!({"spec": {"mutations": [mutation]}})).await;
        let (code, status) = plane.admin.post(MAPS, &map("a")).await;
        assert_eq!((code, &status["reason"]), (500, &json!("InternalError")), "{step}: {status}");
    }
    // What names the object stays.
    let named = apply(
        "Object{metadata: Object.metadata{name: 'other', namespace: 'other', uid: 'u', generation: 7}}",
    );
    plane.admin.merge(&format!("{POLICIES}/p"), &json!({"spec": {"mutations": [named]}})).await;
    let made = plane.admin.make(MAPS, &map("a")).await;
    assert_eq!((&made["metadata"]["name"], &made["metadata"]["namespace"]), (&json!("a"), &json!("default")));
    assert_ne!(made["metadata"]["uid"], "u");
    plane.server.shutdown().await;
}

#[tokio::test]
async fn a_test_that_fails_leaves_the_object() {
    let plane = TestPlane::start().await;
    let tested = patch(
        "[JSONPatch{op: 'test', path: '/data/k', value: 'v'}, JSONPatch{op: 'replace', path: '/data/k', value: 'w'}]",
    );
    mutated(&plane, "p", &tested).await;
    assert_eq!(plane.admin.make(MAPS, &map("a")).await["data"]["k"], "w");
    let mut other = map("b");
    other["data"]["k"] = "x".into();
    assert_eq!(plane.admin.make(MAPS, &other).await["data"]["k"], "x");
    plane.server.shutdown().await;
}

#[tokio::test]
async fn custom_resources_are_merged_by_their_schema() {
    let plane = TestPlane::start().await;
    let mut kind = widgets();
    let text = json!({"type": "string"});
    let entry = json!({"type": "object", "required": ["name"], "properties": {
        "name": text, "size": text, "level": {"type": "integer", "default": 7},
    }});
    kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {"spec": {
        "type": "object", "properties": {
            "size": text, "list": {"type": "array", "items": text},
            "parts": {
                "type": "array", "items": entry, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        },
    }}});
    plane.admin.make(CRDS, &kind).await;
    let parts = apply(
        "Object{spec: Object.spec{parts: [Object.spec.parts{name: 'b', size: 'L'}, Object.spec.parts{name: 'c'}]}}",
    );
    bound(&plane, "parts", ("example.com", "widgets"), &json!({"mutations": [parts]})).await;
    let given = json!({"parts": [{"name": "a", "level": 1}, {"name": "b", "level": 2}]});
    let made = plane.admin.make(WIDGETS, &widget("w", given)).await;
    // Defaults are filled in again.
    assert_eq!(
        made["spec"]["parts"],
        json!([{"name": "a", "level": 1}, {"name": "b", "level": 2, "size": "L"}, {"name": "c", "level": 7}])
    );
    let (code, status) = plane
        .admin
        .merge(
            &format!("{POLICIES}/parts"),
            &json!({"spec": {"mutations": [apply("Object{spec: Object.spec{list: ['a']}}")]}}),
        )
        .await;
    assert_eq!(code, 200, "{status}");
    let (code, status) = plane.admin.post(WIDGETS, &widget("x", json!({"size": "S"}))).await;
    assert_eq!(code, 403);
    let why = "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.list";
    assert!(message(&status).ends_with(why), "{status}");
    // What a policy makes is validated, also a null.
    for value in ["1", "null"] {
        let step = patch(&format!("[JSONPatch{{op: 'add', path: '/spec/size', value: {value}}}]"));
        plane.admin.merge(&format!("{POLICIES}/parts"), &json!({"spec": {"mutations": [step]}})).await;
        let (code, status) = plane.admin.post(WIDGETS, &widget("x", json!({"size": "S"}))).await;
        assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!("spec.size")), "{status}");
    }
    plane.server.shutdown().await;
}

#[tokio::test]
async fn each_set_of_parameters_changes_the_object() {
    let plane = TestPlane::start().await;
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "mutations": [
            apply("params == null ? Object{data: {'none': 'x'}} : Object{data: {params.data.key: params.data.value}}"),
        ],
        "matchConstraints": {
            "resourceRules": [rule("", "configmaps")], "objectSelector": {"matchLabels": {"mutated": "yes"}},
        },
    });
    bound(&plane, "p", ("", "configmaps"), &spec).await;
    let at = format!("{BINDINGS}/p-binding");
    let object =
        |name: &str| json!({"metadata": {"name": name, "labels": {"mutated": "yes"}}, "data": {"k": "v"}});
    assert_eq!(plane.admin.make(MAPS, &object("a")).await["data"], json!({"k": "v", "none": "x"}));
    let by_name = json!({"name": "x", "parameterNotFoundAction": "Deny"});
    plane.admin.merge(&at, &json!({"spec": {"paramRef": by_name}})).await;
    let (code, status) = plane.admin.post(MAPS, &object("b")).await;
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
    assert_eq!(
        message(&status),
        "policy 'p' with binding 'p-binding' denied request: failed to configure binding: no params found for policy \
         binding with `Deny` parameterNotFoundAction"
    );
    plane.admin.merge(&at, &json!({"spec": {"paramRef": {"parameterNotFoundAction": "Allow"}}})).await;
    assert_eq!(plane.admin.make(MAPS, &object("b")).await["data"], json!({"k": "v"}));
    for (name, key) in [("x", "one"), ("y", "two")] {
        let params =
            json!({"metadata": {"name": name, "labels": {"p": "yes"}}, "data": {"key": key, "value": name}});
        plane.admin.make(MAPS, &params).await;
    }
    assert_eq!(plane.admin.make(MAPS, &object("c")).await["data"], json!({"k": "v", "one": "x"}));
    let selected =
        json!({"name": null, "selector": {"matchLabels": {"p": "yes"}}, "parameterNotFoundAction": "Deny"});
    plane.admin.merge(&at, &json!({"spec": {"paramRef": selected}})).await;
    assert_eq!(plane.admin.make(MAPS, &object("d")).await["data"], json!({"k": "v", "one": "x", "two": "y"}));
    // A kind that is not served.
    let kind = json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "Absent"}});
    plane.admin.merge(&format!("{POLICIES}/p"), &json!({"spec": kind})).await;
    let (code, status) = plane.admin.post(MAPS, &object("e")).await;
    assert_eq!(code, 403);
    assert_eq!(
        message(&status),
        "policy \"p\" denied request: failed to configure policy: failed to find resource referenced by paramKind: \
         'example.com/v1, Kind=Absent'"
    );
    plane.server.shutdown().await;
}

/// `/add/x` appends x to a key of a ConfigMap; other paths change nothing.
fn answer(path: &str, request: &Value) -> Value {
    let Some(text) = path.strip_prefix("/add/") else { return json!({"allowed": true}) };
    let value = format!("{}{text}", request["object"]["data"]["k"].as_str().unwrap());
    let steps = json!([{"op": "replace", "path": "/data/k", "value": value}]);
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(steps.to_string())})
}

#[tokio::test]
async fn policies_and_webhooks_are_invoked_again_if_they_want_to() {
    let server = Webhook::start(answer).await;
    let plane = TestPlane::start().await;
    let again = |name: &str| json!({"mutations": [append(name)], "reinvocationPolicy": "IfNeeded"});
    bound(&plane, "a", ("", "configmaps"), &again("a")).await;
    let made = async |name: &str| plane.admin.make(MAPS, &map(name)).await["data"]["k"].clone();
    assert_eq!(made("alone").await, "vaa", "as upstream, also after its own change");
    mutated(&plane, "b", &append("b")).await;
    assert_eq!(made("two").await, "vaba");
    let hook = |name: &str, policy: &str| {
        json!({
            "name": format!("{name}.example.com"), "clientConfig": server.client_config(&format!("/add/{name}")),
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "reinvocationPolicy": policy,
            "rules": [rule("", "configmaps")],
        })
    };
    let hooks =
        json!({"metadata": {"name": "hooks"}, "webhooks": [hook("x", "IfNeeded"), hook("y", "Never")]});
    plane.admin.make(&format!("{GROUP}/mutatingwebhookconfigurations"), &hooks).await;
    // Policies come before webhooks in both rounds.
    assert_eq!(made("three").await, "vabxyax");
    plane.admin.delete(&format!("{POLICIES}/a"), &Value::Null).await;
    assert_eq!(made("four").await, "vbxyx");
    plane.server.shutdown().await;
}

#[tokio::test]
async fn a_mutation_cannot_exhaust_the_server() {
    let plane = TestPlane::start().await;
    let all = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]";
    let costly =
        format!("{all}.all(a, {all}.all(b, {all}.all(c, {all}.all(d, {all}.all(e, {all}.all(f, true))))))");
    mutated(&plane, "p", &apply(&format!("Object{{data: {{'x': string({costly})}}}}"))).await;
    let (code, status) = plane.admin.post(MAPS, &map("a")).await;
    assert!(code == 403 && message(&status).contains("cost limit exceeded"), "{status}");
    // Many mutations that each double an annotation.
    let doubled = apply(
        "Object{metadata: Object.metadata{annotations: {'a': object.metadata.annotations.a + object.metadata.annotations.a}}}",
    );
    let mutations = vec![doubled; 30];
    plane.admin.merge(&format!("{POLICIES}/p"), &json!({"spec": {"mutations": mutations}})).await;
    let mut object = map("a");
    object["metadata"]["annotations"] = json!({"a": "x".repeat(1000)});
    let (code, status) = plane.admin.post(MAPS, &object).await;
    assert_eq!(code, 403);
    assert!(message(&status).contains("larger than") || message(&status).contains("more than"), "{status}");
    // Steps that nest an object in itself.
    let nested = patch("[JSONPatch{op: 'add', path: '/spec/size', value: object}]");
    let mut kind = widgets();
    kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    plane.admin.make(CRDS, &kind).await;
    let mutations = vec![nested; 200];
    bound(&plane, "q", ("example.com", "widgets"), &json!({"mutations": mutations})).await;
    let (code, status) = plane.admin.post(WIDGETS, &widget("w", json!({"size": "S"}))).await;
    assert!(code == 403 || code == 400, "{code} {}", message(&status));
    assert_eq!(plane.admin.get(&format!("{MAPS}?limit=1")).await.0, 200);
    plane.server.shutdown().await;
}

#[tokio::test]
async fn policies_can_always_be_corrected() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options::new(Storage::Folder(folder.path().to_owned()));
    let plane = TestPlane::open(options()).await;
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin";
    let everything =
        json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]);
    let spec =
        json!({"matchConstraints": {"resourceRules": everything}, "mutations": [apply("Object{nope: 1}")]});
    bound(&plane, "lockout", ("", ""), &spec).await;
    assert_eq!(plane.admin.post(MAPS, &map("a")).await.0, 403);
    assert_eq!(plane.admin.post(NAMESPACES, &json!({"metadata": {"name": "x"}})).await.0, 403);
    // Nor does it keep the server from starting.
    assert_eq!(plane.admin.delete(role, &Value::Null).await.0, 200);
    plane.server.shutdown().await;
    drop(plane);
    let plane = TestPlane::open(options()).await;
    assert_eq!(plane.admin.get(role).await.0, 200);
    assert_eq!(plane.admin.post(MAPS, &map("a")).await.0, 403);
    plane
        .admin
        .make(POLICIES, &policy("another", ("", "configmaps"), &json!({"mutations": [append("x")]})))
        .await;
    assert_eq!(plane.admin.delete(&format!("{BINDINGS}/lockout-binding"), &Value::Null).await.0, 200);
    plane.admin.make(MAPS, &map("a")).await;
    plane.server.shutdown().await;
}

#[tokio::test]
async fn parameters_must_be_readable_for_the_author() {
    let plane = TestPlane::start().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]);
    plane
        .admin
        .make(&format!("{roles}/clusterroles"), &json!({"metadata": {"name": "author"}, "rules": rules}))
        .await;
    let (kind, group) = ("User", "rbac.authorization.k8s.io");
    plane
        .admin
        .make(
            &format!("{roles}/clusterrolebindings"),
            &json!({
                "metadata": {"name": "author"}, "subjects": [{"kind": kind, "name": "jane", "apiGroup": group}],
                "roleRef": {"kind": "ClusterRole", "name": "author", "apiGroup": group},
            }),
        )
        .await;
    let jane = plane.caller(User::new("jane", ["people"]));
    let spec =
        |kind: &str| json!({"paramKind": {"apiVersion": "v1", "kind": kind}, "mutations": [append("x")]});
    let (code, status) = jane.post(POLICIES, &policy("secrets", ("", "configmaps"), &spec("Secret"))).await;
    assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!("spec.paramKind")), "{status}");
    jane.make(POLICIES, &policy("maps", ("", "configmaps"), &spec("ConfigMap"))).await;
    // A validating policy of the same name says nothing about it.
    let mut by_selector = binding("maps");
    by_selector["spec"]["paramRef"] = json!({"selector": {}, "parameterNotFoundAction": "Deny"});
    let (code, status) = jane.post(BINDINGS, &by_selector).await;
    assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!("spec.paramRef")), "{status}");
    by_selector["spec"]["paramRef"] = json!({"name": "limit", "parameterNotFoundAction": "Deny"});
    jane.make(BINDINGS, &by_selector).await;
    plane.server.shutdown().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_policy_is_said() {
    let plane = TestPlane::start().await;
    let good = policy("good", ("", "configmaps"), &json!({"mutations": [append("x")]}));
    let with = |path: &str, value: Value| {
        let mut policy = good.clone();
        let (parent, field) = path.rsplit_once('/').unwrap();
        policy.pointer_mut(parent).unwrap()[field] = value;
        policy
    };
    let mutations = |mutation: Value| with("/spec/mutations", json!([mutation]));
    let both = |kind: &str| json!({"patchType": kind, "applyConfiguration": {"expression": "Object{}"}, "jsonPatch": {"expression": "[JSONPatch{}]"}});
    let deletes = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]}]);
    let cases = [
        (with("/spec/matchConstraints", Value::Null), "spec.matchConstraints", "Required value"),
        (
            with("/spec/matchConstraints/resourceRules", deletes.clone()),
            "spec.matchConstraints.resourceRules.operations",
            "Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\"",
        ),
        (
            with("/spec/mutations", json!([])),
            "spec.mutations",
            "Required value: mutations must contain at least one item",
        ),
        (with("/spec/reinvocationPolicy", Value::Null), "spec.reinvocationPolicy", "Required value"),
        (
            with("/spec/reinvocationPolicy", json!("Often")),
            "spec.reinvocationPolicy",
            "Unsupported value: \"Often\": supported values: \"IfNeeded\", \"Never\"",
        ),
        (
            with("/spec/failurePolicy", json!("Perhaps")),
            "spec.failurePolicy",
            "Unsupported value: \"Perhaps\": supported values: \"Fail\", \"Ignore\"",
        ),
        (
            mutations(json!({"applyConfiguration": {"expression": "Object{}"}})),
            "spec.mutations[0].patchType",
            "Required value",
        ),
        (
            mutations(json!({"patchType": "Other"})),
            "spec.mutations[0].patchType",
            "Unsupported value: \"Other\": supported values: \"ApplyConfiguration\", \"JSONPatch\"",
        ),
        (
            mutations(json!({"patchType": "ApplyConfiguration"})),
            "spec.mutations[0].applyConfiguration",
            "Required value: must be specified when patchType is ApplyConfiguration",
        ),
        (
            mutations(json!({"patchType": "JSONPatch"})),
            "spec.mutations[0].jsonPatch",
            "Required value: must be specified when patchType is JSONPatch",
        ),
        (
            mutations(both("ApplyConfiguration")),
            "spec.mutations[0].jsonPatch",
            "Invalid value: \"{jsonPatch}\": must not be specified when patchType is ApplyConfiguration",
        ),
        (
            mutations(both("JSONPatch")),
            "spec.mutations[0].applyConfiguration",
            "Invalid value: \"{applyConfiguration}\": must not be specified when patchType is JSONPatch",
        ),
        (mutations(apply(" ")), "spec.mutations[0].applyConfiguration.expression", "Required value"),
        (
            mutations(apply(" nope")),
            "spec.mutations[0].applyConfiguration.expression",
            "Invalid value: \"nope\": compilation failed: undeclared reference to 'nope' (in container '')",
        ),
        (
            mutations(apply("'teapot'")),
            "spec.mutations[0].applyConfiguration.expression",
            "Invalid value: \"'teapot'\": must evaluate to Object but got string",
        ),
        (
            mutations(patch("[]")),
            "spec.mutations[0].jsonPatch.expression",
            "Invalid value: \"[]\": must evaluate to list(JSONPatch) but got list(dyn)",
        ),
        (
            with("/spec/variables", json!([{"name": "a", "expression": "Object{}"}])),
            "spec.variables[0].expression",
            "Invalid value: \"Object{}\": compilation failed: undeclared reference to 'Object' (in container '')",
        ),
        (
            with("/spec/matchConditions", json!([{"name": "a", "expression": "Object{} == object"}])),
            "spec.matchConditions[0].expression",
            "Invalid value: \"Object{} == object\": compilation failed: undeclared reference to 'Object' (in container '')",
        ),
    ];
    let said = async |path: &str, object: &Value, field: &str, text: &str| {
        let (code, status) = plane.admin.post(path, object).await;
        let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
        let found: Vec<&str> = causes
            .iter()
            .filter(|cause| cause["field"] == field)
            .map(|cause| cause["message"].as_str().unwrap())
            .collect();
        assert!(code == 422 && found == [text], "{field}: {text}: {status}");
    };
    for (policy, field, text) in cases {
        said(POLICIES, &policy, field, text).await;
    }
    plane.admin.make(POLICIES, &good).await;
    let with = |field: &str, value: Value| {
        let mut binding = binding("good");
        binding["spec"][field] = value;
        binding
    };
    for (binding, field, text) in [
        (with("policyName", json!("")), "spec.policyName", "Required value"),
        (
            with("matchResources", json!({"resourceRules": deletes})),
            "spec.matchResources.resourceRules.operations",
            "Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\"",
        ),
        (
            with("paramRef", json!({"parameterNotFoundAction": "Deny"})),
            "spec.paramRef",
            "Required value: one of name or selector must be specified",
        ),
        (with("paramRef", json!({"name": "a"})), "spec.paramRef.parameterNotFoundAction", "Required value"),
    ] {
        said(BINDINGS, &binding, field, text).await;
    }
    plane.server.shutdown().await;
}

#[tokio::test]
async fn the_api_of_policies_and_bindings() {
    let plane = TestPlane::start().await;
    let (_, resources) = plane.admin.get(GROUP).await;
    let resources = resources["resources"].as_array().unwrap();
    for (name, kind) in [
        ("mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
        ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
    ] {
        let found = resources.iter().find(|one| one["name"] == name).unwrap();
        assert_eq!((&found["kind"], &found["namespaced"]), (&json!(kind), &json!(false)));
        assert_eq!(found["categories"], json!(["api-extensions"]));
        assert!(!resources.iter().any(|one| one["name"] == format!("{name}/status")), "it has no status");
    }
    let made = plane
        .admin
        .make(POLICIES, &policy("p", ("apps", "deployments"), &json!({"mutations": [apply("Object{}")]})))
        .await;
    assert_eq!(
        (&made["spec"]["failurePolicy"], &made["metadata"]["generation"]),
        (&json!("Fail"), &json!(1))
    );
    let constraints = &made["spec"]["matchConstraints"];
    assert_eq!(
        (&constraints["matchPolicy"], &constraints["objectSelector"]),
        (&json!("Equivalent"), &json!({}))
    );
    assert_eq!(constraints["resourceRules"][0]["scope"], "*");
    let mut bound = binding("p");
    bound["spec"]["matchResources"] = json!({"resourceRules": [rule("apps", "deployments")]});
    let made = plane.admin.make(BINDINGS, &bound).await;
    assert_eq!(made["spec"]["matchResources"]["matchPolicy"], "Equivalent");
    let at = format!("{POLICIES}/p");
    let (code, changed) = plane.admin.merge(&at, &json!({"spec": {"reinvocationPolicy": "IfNeeded"}})).await;
    assert_eq!((code, &changed["metadata"]["generation"]), (200, &json!(2)));
    // A change of another client is not overwritten.
    let mut replaced = changed.clone();
    replaced["metadata"].as_object_mut().unwrap().shift_remove("resourceVersion");
    assert_eq!(plane.admin.put(&at, &replaced).await.0, 422);
    let (code, _) = plane
        .admin
        .apply(
            &format!("{at}?fieldManager=m&force=true"),
            &json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
                "spec": {"reinvocationPolicy": "Never"},
            }),
        )
        .await;
    assert_eq!(code, 200);
    plane.server.shutdown().await;
}
