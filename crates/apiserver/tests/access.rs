//! Who may: tokens that die with what they are bound to, rules by name, certificates from request to use, and
//! nobody who gives what they do not have. What both planes say, word by word, is compared in `tests/suites/access`.

use crate::support;
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use crate::support::{TestPlane, eventually, pki};
use base64::{Engine, engine::general_purpose::STANDARD};
use capstan_apiserver::{ApiServer, Authority, Options, Restriction, Storage, User};
use http_body_util::BodyExt;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpListener;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

async fn is_believed(plane: &TestPlane, token: &Value) -> bool {
    let review = json!({"spec": {"token": token}});
    let review = plane.admin.make("/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
    review["status"]["authenticated"] == true
}

#[tokio::test]
async fn a_token_dies_with_what_it_is_bound_to_and_with_time() {
    let now = Arc::new(AtomicI64::new(1_800_000_000));
    let mut options = Options::new(Storage::Memory);
    let clock = Arc::clone(&now);
    options.clock = Arc::new(move || Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap());
    let plane = TestPlane::open(options).await;
    plane.admin.make(ACCOUNTS, &named("m")).await;
    plane.admin.make(SECRETS, &named("s")).await;
    let path = format!("{ACCOUNTS}/m/token");
    let bound = json!({"spec": {
        "expirationSeconds": 600, "boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s"},
    }});
    let token = plane.admin.make(&path, &bound).await["status"]["token"].clone();
    let free = plane.admin.make(&path, &json!({})).await["status"]["token"].clone();
    assert!(is_believed(&plane, &token).await && is_believed(&plane, &free).await);
    plane.admin.delete(&format!("{SECRETS}/s"), &Value::Null).await;
    plane.admin.make(SECRETS, &named("s")).await;
    assert!(!is_believed(&plane, &token).await, "another Secret of the same name is another Secret");
    assert!(is_believed(&plane, &free).await);
    now.fetch_add(3600 + 61, Ordering::Relaxed);
    assert!(!is_believed(&plane, &free).await, "an hour, and a minute for clocks that disagree");
}

#[tokio::test]
async fn tokens_outlive_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let storage = || Options::new(Storage::Folder(folder.path().join("store")));
    let plane = TestPlane::open(storage()).await;
    plane.admin.make(ACCOUNTS, &named("m")).await;
    let token = plane.admin.make(&format!("{ACCOUNTS}/m/token"), &json!({})).await["status"]["token"].clone();
    plane.server.shutdown().await;
    drop(plane);
    let plane = TestPlane::open(storage()).await;
    assert!(is_believed(&plane, &token).await);
    let other = TestPlane::start().await;
    other.admin.make(ACCOUNTS, &named("m")).await;
    assert!(!is_believed(&other, &token).await, "another plane has another key");
}

/// The key of tokens is replaced: those of before are believed as long as the administrator says, and new ones are.
#[tokio::test]
async fn another_key_signs_tokens() {
    const KEYS: &str = "/capstan/v1/token-keys";
    let now = Arc::new(AtomicI64::new(1_800_000_000));
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let mut options = Options::new(Storage::Folder(folder.path().join("store")));
        let clock = Arc::clone(&now);
        options.clock = Arc::new(move || Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap());
        TestPlane::open(options)
    };
    let plane = open().await;
    plane.admin.make(ACCOUNTS, &named("m")).await;
    let token = async |plane: &TestPlane| {
        plane.admin.make(&format!("{ACCOUNTS}/m/token"), &json!({})).await["status"]["token"].clone()
    };
    let first = token(&plane).await;
    let before = plane.admin.get(KEYS).await.1["signs"].clone();
    let until = Timestamp::from_second(1_800_000_600).unwrap();
    let (status, shown) = plane.admin.post(KEYS, &json!({"keepOldUntil": until})).await;
    assert_eq!((status, &shown["earlier"][0]["id"]), (200, &before), "{shown}");
    assert_ne!(shown["signs"], before);
    let second = token(&plane).await;
    assert!(is_believed(&plane, &first).await && is_believed(&plane, &second).await);
    // Also by a server that is started again, until the time that was given.
    plane.server.shutdown().await;
    drop(plane);
    let plane = open().await;
    assert!(is_believed(&plane, &first).await && is_believed(&plane, &second).await);
    now.fetch_add(600, Ordering::Relaxed);
    assert!(!is_believed(&plane, &first).await && is_believed(&plane, &second).await);
    // After a leak.
    plane.admin.post(KEYS, &json!({})).await;
    assert!(!is_believed(&plane, &second).await);
    assert!(is_believed(&plane, &token(&plane).await).await);
    assert_eq!(plane.admin.post(KEYS, &json!({"keepOld": 1})).await.0, 400);
    let other = plane.caller(User::new("kim", ["system:authenticated"]));
    assert_eq!((other.get(KEYS).await.0, other.post(KEYS, &json!({})).await.0), (403, 403));
}

#[tokio::test]
async fn a_rule_by_name_lets_one_object_be_listed_and_watched() {
    let plane = TestPlane::start().await;
    for name in ["mine", "other"] {
        plane.admin.make(SECRETS, &named(name)).await;
    }
    let rules = json!([
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get", "list", "watch"]},
    ]);
    plane.admin.make(ROLES, &json!({"metadata": {"name": "r"}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "jane"}],
    });
    plane.admin.make(BINDINGS, &binding).await;
    let jane = plane.caller(User::new("jane", ["x"]));
    let selected = |name: &str| format!("{SECRETS}?fieldSelector=metadata.name%3D{name}");
    let (code, list) = jane.get(&selected("mine")).await;
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 1));
    let mut watch = jane.watch(&format!("{}&watch=1", selected("mine"))).await;
    assert_eq!(watch.short().await, ("ADDED".to_owned(), "mine".to_owned()));
    for path in
        [selected("other"), SECRETS.to_owned(), format!("{SECRETS}?watch=1"), format!("{SECRETS}/other")]
    {
        assert_eq!(jane.get(&path).await.0, 403, "{path}");
    }
    plane.admin.delete(&format!("{BINDINGS}/b"), &Value::Null).await;
    assert_eq!(jane.get(&selected("mine")).await.0, 403);
}

#[tokio::test]
async fn a_right_in_one_namespace_ends_there() {
    let plane = TestPlane::start().await;
    let rules = json!([{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["*"]}]);
    plane.admin.make(ROLES, &json!({"metadata": {"name": "own"}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": "own"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "own"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    plane.admin.make(BINDINGS, &binding).await;
    plane.admin.make("/api/v1/namespaces", &named("other")).await;
    let jane = plane.caller(User::new("jane", ["system:authenticated"]));
    assert_eq!(jane.get("/api/v1/namespaces/default").await.0, 200);
    assert_eq!(jane.get("/api/v1/namespaces/other").await.0, 403);
    for path in ["other", "default", ""] {
        let path = format!("/api/v1/namespaces/default/namespaces/{path}");
        assert_eq!(jane.get(&path).await.0 == 200, path.ends_with("/default"), "{path}");
    }
    let (code, _) = jane.delete("/api/v1/namespaces/default/namespaces/other", &Value::Null).await;
    assert_eq!(code, 404);
    assert_eq!(plane.admin.get("/api/v1/namespaces/other").await.1["status"]["phase"], "Active");
}

#[tokio::test]
async fn nobody_gives_what_they_do_not_have() {
    let plane = TestPlane::start().await;
    let rules = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create", "patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]);
    plane.admin.make(ROLES, &json!({"metadata": {"name": "r"}, "rules": rules})).await;
    let subject = json!({"kind": "User", "name": "jane"});
    let binding = |name: &str, kind: &str, role: &str| json!({"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role}, "subjects": [subject]});
    plane.admin.make(BINDINGS, &binding("b", "Role", "r")).await;
    let jane = plane.caller(User::new("jane", ["x"]));
    let role = |verb: &str| {
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}]);
        json!({"metadata": {"name": verb}, "rules": rules})
    };
    assert_eq!(jane.post(ROLES, &role("get")).await.0, 201);
    assert_eq!(jane.post(ROLES, &role("delete")).await.0, 403);
    assert_eq!(
        jane.merge(
            &format!("{ROLES}/r"),
            &json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]})
        )
        .await
        .0,
        403
    );
    assert_eq!(
        jane.apply(&format!("{ROLES}/x?fieldManager=m"), &{
            let mut all = role("delete");
            all["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
            all["kind"] = "Role".into();
            all["metadata"]["name"] = "x".into();
            all
        })
        .await
        .0,
        403
    );
    assert_eq!(jane.post(BINDINGS, &binding("get", "Role", "get")).await.0, 201);
    assert_eq!(jane.post(BINDINGS, &binding("admin", "ClusterRole", "cluster-admin")).await.0, 403);
}

/// From a request to a connection that is let in by what came of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_from_request_to_use() {
    let authority = pki::Authority::new().unwrap();
    let mut options = Options::new(Storage::Memory);
    options.client_authority = Some(Authority { certificate: authority.pem(), key: authority.key() });
    let server = ApiServer::open(options).await.unwrap();
    let plane = TestPlane { admin: support::Caller(server.service(User::admin())), server };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = plane.server.serve(listener, &authority.server().unwrap()).unwrap().port();

    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "machine:1");
    params.distinguished_name.push(rcgen::DnType::OrganizationName, "machines");
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    let body = json!({"metadata": {"name": "m"}, "spec": {
        "request": STANDARD.encode(request), "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth", "digital signature"], "expirationSeconds": 600,
    }});
    let made = plane.admin.make(REQUESTS, &body).await;
    assert_eq!(made["spec"]["username"], "kubernetes-admin");
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r"}]}});
    assert_eq!(plane.admin.merge(&format!("{REQUESTS}/m/approval"), &approved).await.0, 200);
    let certificate =
        || async { plane.admin.get(&format!("{REQUESTS}/m")).await.1["status"]["certificate"].clone() };
    eventually("it is signed", || async { certificate().await.is_string() }).await;
    let pem = STANDARD.decode(certificate().await.as_str().unwrap()).unwrap();

    let who = async |certificate: &str, key: &str| {
        let config = authority.kubeconfig_of(port, certificate, key);
        let config = kube::config::Kubeconfig::from_yaml(&config).unwrap();
        let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews");
        client.request::<Value>(request.body(b"{}".to_vec()).unwrap()).await
    };
    let own = who(str::from_utf8(&pem).unwrap(), &key.serialize_pem()).await.unwrap();
    assert_eq!(own["status"]["userInfo"]["username"], "machine:1");
    assert_eq!(own["status"]["userInfo"]["groups"], json!(["machines", "system:authenticated"]));
    let stranger = rcgen::CertificateParams::default().self_signed(&key).unwrap().pem();
    let refused = who(&stranger, &key.serialize_pem()).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 401), "{refused}");
    plane.server.shutdown().await;
}

#[tokio::test]
async fn metrics_are_the_servers_and_the_processs_for_those_who_may_read_them() {
    let mut options = Options::new(Storage::Memory);
    options.more_metrics = Some(Arc::new(|| "# TYPE more gauge\nmore 7\n".to_owned()));
    let plane = TestPlane::open(options).await;
    let read = async |user: User| {
        let response = plane.caller(user).send("GET", "/metrics", "", &Value::Null).await;
        let (code, body) =
            (response.status().as_u16(), response.into_body().collect().await.unwrap().to_bytes());
        (code, String::from_utf8(body.to_vec()).unwrap())
    };
    let (code, text) = read(User::new("prometheus", ["system:monitoring"])).await;
    assert_eq!(code, 200);
    assert!(text.contains("apiserver_storage_revision ") && text.ends_with("\nmore 7\n"), "{text}");
    let (code, text) = read(User::new("stranger", ["system:authenticated"])).await;
    assert!(code == 403 && !text.contains("more 7"), "{code}: {text}");
}

/// RBAC lets a machine update its Lease as a whole; a restriction leaves it the spec.
#[tokio::test]
async fn restricted_accounts_change_only_some_fields() {
    let restriction = Restriction {
        account_suffix: ".machine",
        api_group: "coordination.k8s.io",
        resource: "leases",
        fields: &["spec"],
        bytes: 4096,
    };
    let options = Options { restrictions: vec![restriction], ..Options::new(Storage::Memory) };
    let plane = TestPlane::open(options).await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    plane.admin.make(leases, &json!({"metadata": {"name": "l"}})).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rules = json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update", "patch"]}]);
    plane.admin.make(&format!("{rbac}/roles"), &json!({"metadata": {"name": "r"}, "rules": rules})).await;
    let subjects = json!([{"kind": "Group", "name": "all"}]);
    let binding =
        json!({"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects});
    plane.admin.make(&format!("{rbac}/rolebindings"), &binding).await;
    let users = ["system:serviceaccount:default:m.machine", "m.machine"];
    let [machine, other] = users.map(|user| plane.caller(User::new(user, ["all"])));
    let lease = format!("{leases}/l");
    let renewal = json!({"spec": {"holderIdentity": "m", "renewTime": "2026-01-01T00:00:00.000000Z"}});
    assert_eq!(machine.merge(&lease, &renewal).await.0, 200);
    for metadata in [
        json!({"finalizers": ["example.com/f"]}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}),
        json!({"labels": {"a": "b"}}),
        json!({"annotations": {"a": "b"}}),
    ] {
        let change = json!({"metadata": metadata});
        let (code, answer) = machine.merge(&lease, &change).await;
        assert_eq!(code, 403, "{change}: {answer}");
        let strategic = "application/strategic-merge-patch+json";
        assert_eq!(machine.call("PATCH", &lease, strategic, &change).await.0, 403);
        let mut whole = machine.get(&lease).await.1;
        whole["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        assert_eq!(machine.put(&lease, &whole).await.0, 403);
        let mut applied =
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata});
        applied["metadata"]["name"] = json!("l");
        assert_eq!(machine.apply(&format!("{lease}?fieldManager=x"), &applied).await.0, 403);
    }
    let long = json!({"spec": {"holderIdentity": "x".repeat(5000)}});
    assert_eq!(machine.merge(&lease, &long).await.0, 403);
    assert_eq!(other.merge(&lease, &json!({"metadata": {"labels": {"a": "b"}}})).await.0, 200);
}
