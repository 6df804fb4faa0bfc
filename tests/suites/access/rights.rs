//! Who judges and who may hand out rights: nobody gives what they do not have.

use capstan_tests::{Caller, Credential};
use serde_json::{Value, json};

use crate::script::{NAMESPACE, Script, account, binding, core, rbac, role};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1";

pub(crate) async fn are_judged(script: &mut Script) {
    let warden = an_account(script, "warden").await;
    let rules = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["get", "list", "create", "patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get"]},
    ]);
    // A right of a name that is no verb of the API says only that the name is not among those granted.
    script.make(&rbac("roles"), role("warden", rules)).await;
    script.make(&rbac("rolebindings"), binding("warden", "Role", "warden", account("warden"))).await;
    script.expect(200, &warden, &format!("GET {}", rbac("roles")), Value::Null).await;
    roles(script, &warden).await;
    bindings(script, &warden).await;
    granted(script, &warden).await;
    requests(script, &warden).await;
    reviews(script, &warden).await;
    impersonation(script, &warden).await;
}

async fn an_account(script: &Script, name: &str) -> Caller {
    script.make(&core("serviceaccounts"), json!({"metadata": {"name": name}})).await;
    let answer = script.make(&core(&format!("serviceaccounts/{name}/token")), json!({})).await;
    script.with(Credential::Token(answer["status"]["token"].as_str().unwrap())).await
}

fn rule(resource: &str, verbs: &[&str], names: &[&str]) -> Value {
    let mut rule = json!({"apiGroups": [""], "resources": [resource], "verbs": verbs});
    if !names.is_empty() {
        rule["resourceNames"] = json!(names);
    }
    rule
}

/// Roles hold at most what their writer holds.
async fn roles(script: &mut Script, warden: &Caller) {
    let post = format!("POST {}", rbac("roles"));
    for (name, rules) in [
        ("same", json!([rule("configmaps", &["get", "list"], &[])])),
        ("less", json!([rule("configmaps", &["get"], &["x"]), rule("secrets", &["get"], &["b"])])),
        ("none", json!([])),
    ] {
        script.expect(201, warden, &post, role(name, rules)).await;
    }
    for rules in [
        json!([rule("configmaps", &["get", "watch", "delete"], &[])]),
        json!([rule("secrets", &["get"], &[])]),
        json!([rule("secrets", &["get"], &["a", "c"])]),
        json!([rule("*", &["get"], &[])]),
        json!([rule("configmaps", &["*"], &[])]),
        json!([rule("configmaps/status", &["get"], &[])]),
    ] {
        script.expect(403, warden, &post, role("more", rules)).await;
    }
    let more = json!({"rules": [rule("secrets", &["list"], &[])]});
    script.expect(403, warden, &format!("PATCH {}", rbac("roles/same")), more).await;
    let owned = json!({"metadata": {"finalizers": ["example.com/x"]}});
    let held = script.make(&rbac("roles"), role("held", json!([rule("pods", &["get"], &[])]))).await;
    assert_eq!(held["rules"][0]["verbs"], json!(["get"]));
    // Owners and finalizers are anybody's who may write the object, labels are not.
    script.expect(200, warden, &format!("PATCH {}", rbac("roles/held")), owned).await;
    let freed = json!({"metadata": {"finalizers": null}});
    script.expect(200, warden, &format!("PATCH {}", rbac("roles/held")), freed).await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    script.expect(403, warden, &format!("PATCH {}", rbac("roles/held")), label).await;
    let everywhere = "POST /apis/rbac.authorization.k8s.io/v1/clusterroles";
    script.expect(403, warden, everywhere, role("x", json!([]))).await;
}

/// Nor is a role bound by whoever does not hold it.
async fn bindings(script: &mut Script, warden: &Caller) {
    let post = format!("POST {}", rbac("rolebindings"));
    let jane = || json!({"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"});
    script.expect(201, warden, &post, binding("same", "Role", "same", jane())).await;
    script
        .expect(403, warden, &post, binding("admin", "ClusterRole", "cluster-admin", account("warden")))
        .await;
    script.expect(403, warden, &post, binding("held", "Role", "held", account("warden"))).await;
    script.expect(404, warden, &post, binding("none", "Role", "not-there", jane())).await;
    script.expect(404, warden, &post, binding("none", "ClusterRole", "not-there", jane())).await;
    script.make(&rbac("rolebindings"), binding("held", "Role", "held", jane())).await;
    let more = json!({"subjects": [account("warden")]});
    script.expect(403, warden, &format!("PATCH {}", rbac("rolebindings/held")), more).await;
    let other = json!({"roleRef": {"name": "held"}});
    script.expect(403, warden, &format!("PATCH {}", rbac("rolebindings/same")), other).await;
}

/// Unless the right to do so was granted by its own name.
async fn granted(script: &mut Script, warden: &Caller) {
    let rules = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["lent"], "verbs": ["bind"]},
    ]);
    let lent = role("lent", json!([rule("pods", &["delete"], &[])]));
    script.make("/apis/rbac.authorization.k8s.io/v1/clusterroles", lent).await;
    let post = format!("POST {}", rbac("rolebindings"));
    script.expect(403, warden, &post, binding("lent", "ClusterRole", "lent", account("warden"))).await;
    script.make(&rbac("roles"), role("binder", rules)).await;
    script.make(&rbac("rolebindings"), binding("binder", "Role", "binder", account("warden"))).await;
    script.expect(201, warden, &post, binding("lent", "ClusterRole", "lent", account("warden"))).await;

    let bold = an_account(script, "bold").await;
    let rules = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create", "escalate"]},
    ]);
    script.make(&rbac("roles"), role("bold", rules)).await;
    script.make(&rbac("rolebindings"), binding("bold", "Role", "bold", account("bold"))).await;
    let all = role("all", json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]));
    script.expect(201, &bold, &format!("POST {}", rbac("roles")), all).await;
}

/// Approving and signing requests are rights of their own, for each signer.
async fn requests(script: &mut Script, warden: &Caller) {
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = rcgen::CertificateParams::default().serialize_request(&key).unwrap().pem().unwrap();
    let pem = serde_json::to_value(k8s_openapi::ByteString(pem.into_bytes())).unwrap();
    let body = json!({
        "metadata": {"name": "warden"},
        "spec": {"request": pem, "signerName": "example.com/signer", "usages": ["client auth"]},
    });
    script.make(requests, body).await;
    let rules = json!([
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval", "certificatesigningrequests/status"], "verbs": ["patch"]},
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["get"]},
    ]);
    let clusters = |kind: &str| format!("/apis/rbac.authorization.k8s.io/v1/{kind}");
    script.make(&clusters("clusterroles"), role("requests", rules)).await;
    let bound = binding("requests", "ClusterRole", "requests", account("warden"));
    script.make(&clusters("clusterrolebindings"), bound).await;
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let approve = format!("PATCH {requests}/warden/approval");
    let sign = format!("PATCH {requests}/warden/status");
    let failed = json!({"status": {"conditions": [{"type": "Failed", "status": "True"}]}});
    // A real plane notices new rights a moment later: until then it rejects the patches for want of them.
    script.expect(200, warden, &format!("GET {requests}/warden"), Value::Null).await;
    script.expect(403, warden, &approve, approved.clone()).await;
    script.expect(403, warden, &sign, failed).await;
    let rules = json!([
        {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["example.com/*"], "verbs": ["approve"]},
    ]);
    script.make(&clusters("clusterroles"), role("signers", rules)).await;
    let bound = binding("signers", "ClusterRole", "signers", account("warden"));
    script.make(&clusters("clusterrolebindings"), bound).await;
    script.expect(200, warden, &approve, approved).await;
}

/// Questions, and the answers of both planes.
async fn reviews(script: &mut Script, warden: &Caller) {
    let admin = script.admin.clone();
    let ask = |verb: &str, resource: &str, name: &str| json!({"namespace": NAMESPACE, "verb": verb, "resource": resource, "name": name});
    let note = async |script: &mut Script, who: &Caller, kind: &str, spec: Value| {
        let line = format!("POST {REVIEWS}/{kind}");
        let answer = script.expect(201, who, &line, json!({"spec": spec})).await;
        script.note(&spec.to_string(), &answer["status"].to_string());
    };
    for attributes in [
        ask("get", "configmaps", ""),
        ask("get", "secrets", "a"),
        ask("get", "secrets", "c"),
        ask("list", "secrets", ""),
        ask("*", "*", ""),
    ] {
        note(script, warden, "selfsubjectaccessreviews", json!({"resourceAttributes": attributes})).await;
    }
    let path = json!({"nonResourceAttributes": {"verb": "get", "path": "/api"}});
    note(script, warden, "selfsubjectaccessreviews", path.clone()).await;
    let jane = json!({"user": "jane", "resourceAttributes": ask("get", "configmaps", "")});
    note(script, &admin, "subjectaccessreviews", jane).await;
    let masters =
        json!({"user": "x", "groups": ["system:masters"], "resourceAttributes": ask("get", "x", "")});
    note(script, &admin, "subjectaccessreviews", masters).await;
    let line = format!("POST {REVIEWS}/subjectaccessreviews");
    for body in [
        json!({"spec": {}}),
        json!({"spec": {"user": "x", "resourceAttributes": {}, "nonResourceAttributes": {}}}),
    ] {
        let answer = admin.ask("POST", &format!("{REVIEWS}/subjectaccessreviews"), &body).await.unwrap();
        script.note(&body.to_string(), &format!("{} {}", answer.code, answer.body["reason"]));
    }
    script.expect(403, warden, &line, json!({"spec": {"user": "x", "resourceAttributes": {}}})).await;
    let local = |namespace: &str| {
        json!({
            "metadata": {"namespace": namespace},
            "spec": {"user": "jane", "resourceAttributes": {"namespace": namespace, "verb": "get", "resource": "configmaps"}},
        })
    };
    let line = format!("POST {REVIEWS}/namespaces/{NAMESPACE}/localsubjectaccessreviews");
    let answer = script.expect(201, &admin, &line, local(NAMESPACE)).await;
    script.note("local", &answer["status"].to_string());
    script.expect(400, &admin, &line, local("default")).await;
    let line = format!("POST {REVIEWS}/selfsubjectrulesreviews");
    let answer = script.expect(201, warden, &line, json!({"spec": {"namespace": NAMESPACE}})).await;
    for kind in ["resourceRules", "nonResourceRules"] {
        // Some that upstream gives to every service account serve what an embedded plane does not have.
        let foreign = ["clustertrustbundles", "/.well-known/openid-configuration", "/openid/v1/jwks"];
        let rules = answer["status"][kind].as_array().unwrap().iter().map(Value::to_string);
        let mut rules: Vec<_> =
            rules.filter(|rule| !foreign.iter().any(|foreign| rule.contains(foreign))).collect();
        rules.sort();
        script.note(kind, &rules.join(" "));
    }
    for line in [
        format!("GET {REVIEWS}/selfsubjectaccessreviews"),
        format!("GET {REVIEWS}/selfsubjectaccessreviews/x"),
        format!("DELETE {REVIEWS}/selfsubjectaccessreviews/x"),
    ] {
        let code = if line.ends_with("/x") { 404 } else { 405 };
        script.expect(code, &admin, &line, Value::Null).await;
    }
    let answer = script.make(&core("serviceaccounts/warden/token"), json!({})).await;
    let token = answer["status"]["token"].as_str().unwrap();
    let line = "POST /apis/authentication.k8s.io/v1/tokenreviews";
    for spec in [
        json!({"token": token}),
        json!({"token": token, "audiences": ["https://kubernetes.default.svc", "x"]}),
        json!({"token": token, "audiences": ["x"]}),
        json!({"token": "nonsense"}),
    ] {
        let answer = script.expect(201, &admin, line, json!({"spec": spec})).await;
        let mut status = answer["status"].clone();
        if let Some(user) = status["user"].as_object_mut() {
            user.remove("extra");
        }
        script.note("token", &status.to_string());
    }
    script.expect(400, &admin, line, json!({"spec": {"token": ""}})).await;
}

/// Acting as somebody else, for whoever may.
async fn impersonation(script: &mut Script, warden: &Caller) {
    let admin = script.admin.clone();
    let name = format!("system:serviceaccount:{NAMESPACE}:warden");
    let get = |path: &str| format!("GET {}", core(path));
    let line = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews";
    for headers in [
        vec![("Impersonate-User", name.as_str())],
        vec![("Impersonate-User", "jane"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")],
        vec![
            ("Impersonate-User", "jane"),
            ("Impersonate-Extra-Example.com%2fx", "1"),
            ("Impersonate-Uid", "7"),
        ],
        vec![("Impersonate-User", "system:anonymous")],
    ] {
        let code = if headers[0].1 == "system:anonymous" { 403 } else { 201 };
        let answer = script.expect_as(code, &admin, line, json!({}), &headers).await;
        script.note(&format!("{headers:?}"), &answer["status"]["userInfo"].to_string());
    }
    let own = [("Impersonate-User", name.as_str())];
    script.expect_as(200, &admin, &get("configmaps"), Value::Null, &own).await;
    script.expect_as(403, &admin, &get("pods"), Value::Null, &own).await;
    // Only the codes: upstream's refusals speak of newer verbs by which it could have been allowed, too.
    let jane = ("Impersonate-User", "jane");
    let cases = [
        (warden, vec![jane]),
        (warden, vec![jane, ("Impersonate-Group", "system:masters")]),
        (&admin, vec![("Impersonate-Group", "x")]),
    ];
    for (who, headers) in cases {
        let answer = who.ask_as("GET", &core("configmaps"), &Value::Null, &headers).await.unwrap();
        script.note(&format!("{headers:?}"), &format!("{} {}", answer.code, answer.body["reason"]));
    }
}
