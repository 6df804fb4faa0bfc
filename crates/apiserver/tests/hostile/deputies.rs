//! Whoever may do more than the client does nothing for it: not the collector of garbage, not roles, signers, tokens, webhooks,
//! nor other names.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use capstan_apiserver::User;
use serde_json::{Value, json};

use crate::planted::{RBAC, VALUE, ask, attackers, grant, logs, mine, plane, theirs};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

#[tokio::test(flavor = "multi_thread")]
async fn nobody_becomes_somebody_else() {
    let plane = plane().await;
    let others: [&[(&str, &str)]; 8] = [
        &[("impersonate-user", "kubernetes-admin")],
        &[("impersonate-user", "kubernetes-admin"), ("impersonate-group", "system:masters")],
        &[("impersonate-group", "system:masters")],
        &[("impersonate-user", "mallory"), ("impersonate-group", "system:masters")],
        &[("impersonate-user", "system:serviceaccount:theirs:s")],
        &[("impersonate-user", "system:serviceaccount:mine:x"), ("impersonate-group", "system:masters")],
        &[("impersonate-user", "system:serviceaccount:mine:x"), ("impersonate-uid", "1")],
        &[("impersonate-user", "system:serviceaccount:mine:x"), ("impersonate-extra-a", "1")],
    ];
    for (who, caller) in &attackers(&plane) {
        for headers in others {
            let what = format!("{who} as {headers:?}");
            let answer = ask(caller, "GET", &theirs("secrets/s"), headers, "").await.keeps_silent(&what);
            assert!([400, 403].contains(&answer.code), "{what}: {}", answer.text);
        }
    }
    logs().keeps_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_do_not_grow() {
    let plane = plane().await;
    // Whoever holds every verb may grant every right, in the namespace where they hold it; these two may only write.
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let writes = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}]);
    grant(&plane, "mine", "writer", &writes).await;
    let [mallory, writer] = ["mallory", "writer"].map(|name| plane.caller(User::new(name, ["x"])));
    let subjects = json!([{"kind": "User", "name": "mallory"}, {"kind": "User", "name": "writer"}]);
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]);
    let bind = |name: &str, kind: &str| json!({"metadata": {"name": name}, "roleRef": {"kind": kind, "name": name}, "subjects": subjects});
    let role = json!({"metadata": {"name": "all"}, "rules": all});
    let bodies = [
        (format!("{RBAC}/clusterroles"), &role),
        (format!("{RBAC}/namespaces/theirs/roles"), &role),
        (format!("{RBAC}/clusterrolebindings"), &bind("cluster-admin", "ClusterRole")),
        (format!("{RBAC}/namespaces/theirs/rolebindings"), &bind("mallory", "Role")),
    ];
    for (path, body) in &bodies {
        for caller in [&mallory, &writer] {
            let (code, text) = caller.post(path, body).await;
            assert_eq!(code, 403, "POST {path}: {text}");
        }
    }
    let patch = json!({"rules": all});
    assert_eq!(mallory.merge(&format!("{RBAC}/clusterroles/s"), &patch).await.0, 403);
    let own = [
        (format!("{RBAC}/namespaces/mine/roles"), &role),
        (format!("{RBAC}/namespaces/mine/rolebindings"), &bind("cluster-admin", "ClusterRole")),
        (format!("{RBAC}/namespaces/mine/rolebindings"), &bind("mallory", "Role")),
    ];
    for (path, body) in &own {
        let (code, text) = writer.post(path, body).await;
        assert_eq!(code, 403, "POST {path}: {text}");
    }
    assert_eq!(writer.merge(&format!("{RBAC}/namespaces/mine/roles/writer"), &patch).await.0, 403);
    // What she may grant in her own namespace gives nothing outside of it.
    assert_eq!(mallory.post(&own[1].0, own[1].1).await.0, 201);
    for caller in [&mallory, &writer] {
        assert_eq!(ask(caller, "GET", &theirs("secrets/s"), &[], "").await.keeps_silent("theirs").code, 403);
    }
    for path in ["/metrics", "/capstan/v1/backup", "/capstan/v1/backup/", "/logs", "/debug/pprof", "/configz"]
    {
        for (who, caller) in &attackers(&plane) {
            let answer = ask(caller, "GET", path, &[], "").await.keeps_silent(path);
            assert_eq!(answer.code, 403, "{who}: {path}");
        }
    }
    // Not even for whom a role lets read every path.
    let rules = json!([{"nonResourceURLs": ["*"], "verbs": ["*"]}]);
    plane
        .admin
        .make(&format!("{RBAC}/clusterroles"), &json!({"metadata": {"name": "paths"}, "rules": rules}))
        .await;
    let mut binding = bind("paths", "ClusterRole");
    binding["subjects"][0]["name"] = "reader".into();
    plane.admin.make(&format!("{RBAC}/clusterrolebindings"), &binding).await;
    let reader = plane.caller(User::new("reader", ["x"]));
    assert_eq!(ask(&reader, "GET", "/metrics", &[], "").await.keeps_silent("metrics").code, 200);
    assert_eq!(ask(&reader, "GET", "/capstan/v1/backup", &[], "").await.keeps_silent("backup").code, 403);
    // Nor for a cluster-admin, who may impersonate everyone.
    binding["roleRef"]["name"] = "cluster-admin".into();
    binding["metadata"] = json!({"name": "all"});
    plane.admin.make(&format!("{RBAC}/clusterrolebindings"), &binding).await;
    let masters = [("impersonate-user", "reader"), ("impersonate-group", "system:masters")];
    let taken = ask(&reader, "GET", "/capstan/v1/backup", &masters, "").await;
    assert_eq!(taken.keeps_silent("backup by impersonation").code, 403);
    logs().keeps_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_reviews_and_webhooks_are_for_those_who_may() {
    let plane = plane().await;
    let hook = json!({"metadata": {"name": "h"}, "webhooks": [{
        "name": "h.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/"}, "rules": [
            {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]},
        ],
    }]});
    let conversion = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/"},
    }}}});
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    let review = json!({"spec": {"user": "kubernetes-admin", "resourceAttributes": {"verb": "get", "resource": "secrets"}}});
    let posts = [
        (theirs("serviceaccounts/s/token"), json!({})),
        (theirs("pods/p/eviction"), json!({})),
        (theirs("pods/p/binding"), json!({})),
        ("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations".to_owned(), hook.clone()),
        ("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations".to_owned(), hook),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned(), review.clone()),
        ("/apis/authorization.k8s.io/v1/namespaces/theirs/localsubjectaccessreviews".to_owned(), review),
        ("/apis/authentication.k8s.io/v1/tokenreviews".to_owned(), json!({"spec": {"token": "x"}})),
        (REQUESTS.to_owned(), json!({"metadata": {"name": "r"}})),
    ];
    for (who, caller) in &attackers(&plane) {
        for (path, body) in &posts {
            let (code, text) = caller.post(path, body).await;
            assert_eq!(code, 403, "{who}: POST {path}: {text}");
        }
        assert_eq!(caller.merge(crd, &conversion).await.0, 403, "{who}");
    }
    // A secret that asks for a token gets none: there is nobody who would fill it in for her.
    let mallory = &plane.caller(User::new("mallory", ["x"]));
    let annotations = json!({"kubernetes.io/service-account.name": "s"});
    let asking = json!({"metadata": {"name": "t", "annotations": annotations}, "type": "kubernetes.io/service-account-token"});
    let (code, made) = mallory.post(&mine("secrets"), &asking).await;
    assert!(made["data"]["token"].is_null(), "{code}: {made}");
    logs().keeps_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_signed_for_whom_somebody_else_approved() {
    let plane = plane().await;
    let rules = json!([
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create", "get", "update", "patch"]},
        {
            "apiGroups": ["certificates.k8s.io"], "verbs": ["update", "patch"],
            "resources": ["certificatesigningrequests/approval", "certificatesigningrequests/status"],
        },
    ]);
    plane
        .admin
        .make(&format!("{RBAC}/clusterroles"), &json!({"metadata": {"name": "asks"}, "rules": rules}))
        .await;
    let subjects = json!([{"kind": "User", "name": "asker"}]);
    let binding = json!({"metadata": {"name": "asks"}, "roleRef": {"kind": "ClusterRole", "name": "asks"}, "subjects": subjects});
    plane.admin.make(&format!("{RBAC}/clusterrolebindings"), &binding).await;
    let asker = plane.caller(User::new("asker", ["x"]));
    let request = |name: &str, group: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, "kubernetes-admin");
        params.distinguished_name.push(rcgen::DnType::OrganizationName, group);
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        json!({"metadata": {"name": name}, "spec": {
            "request": STANDARD.encode(pem), "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
            "username": "kubernetes-admin", "groups": ["system:masters"],
        }})
    };
    assert_eq!(asker.post(REQUESTS, &request("masters", "system:masters")).await.0, 403);
    let (code, made) = asker.post(REQUESTS, &request("r", "x")).await;
    assert_eq!((code, &made["spec"]["username"]), (201, &Value::from("asker")), "{made}");
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r"}]}});
    assert_eq!(asker.merge(&format!("{REQUESTS}/r/approval"), &approved).await.0, 403);
    let signed = json!({"status": {"certificate": STANDARD.encode("x")}});
    assert_eq!(asker.merge(&format!("{REQUESTS}/r/status"), &signed).await.0, 403);
    let (_, after) = asker.get(&format!("{REQUESTS}/r")).await;
    assert_eq!(after["status"], json!({}), "{after}");
    let (_, renamed) =
        asker.merge(&format!("{REQUESTS}/r"), &json!({"spec": {"username": "kubernetes-admin"}})).await;
    assert_eq!(renamed["spec"]["username"], "asker");
}

/// Upstream's check that whoever sets `blockOwnerDeletion` may change the owner's finalizers is off by default there, and is
/// not made here: within a namespace she may hold up the deletion of an owner. From another she may not even that.
#[tokio::test(flavor = "multi_thread")]
async fn the_collector_takes_nothing_that_is_not_hers() {
    let plane = plane().await;
    let mallory = &plane.caller(User::new("mallory", ["x"]));
    let (_, secret) = plane.admin.get(&theirs("secrets/s")).await;
    let uid = secret["metadata"]["uid"].as_str().unwrap();
    let owner = json!([{"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": uid, "blockOwnerDeletion": true, "controller": true}]);
    let blocking =
        json!({"metadata": {"name": "b", "ownerReferences": owner, "finalizers": ["example.com/held"]}});
    let (code, made) = mallory.post(&mine("configmaps"), &blocking).await;
    assert_eq!(code, 201, "{made}");
    assert!(!made.to_string().contains(VALUE));
    mallory.delete(&mine("configmaps/b"), &json!({"propagationPolicy": "Foreground"})).await;
    let (code, still) = plane.admin.get(&theirs("secrets/s")).await;
    assert_eq!((code, &still["metadata"]["deletionTimestamp"]), (200, &Value::Null));
    plane.admin.delete(&theirs("secrets/s"), &json!({"propagationPolicy": "Foreground"})).await;
    plane.admin.gone(&theirs("secrets/s")).await;
    logs().keeps_silent();
}
