//! What somebody can do who has taken a machine over: speak for it, and nothing else.

use anyhow::ensure;
use capstan_testkit::eventually;
use capstan_tests::Credential;
use serde_json::{Value, json};

use crate::stage::{
    DEADLINE, MACHINE, NAMESPACE, REQUESTS, Stage, account, core, enrolling, group, leases, reports,
};

/// With the token that the machine starts with.
pub(crate) async fn with_the_token(stage: &Stage, token: &str) {
    let thief = stage.place.with(Credential::Token(token)).await.unwrap();
    let own = reports(&format!("/{MACHINE}"));
    assert_eq!(thief.ask("GET", &own, &Value::Null).await.unwrap().code, 200, "its own report");
    let mut tried = common(stage).await;
    // A machine that has not enrolled reads no plan and gives no sign of life.
    tried.push(("GET", core(&format!("secrets/{MACHINE}-plan")), Value::Null));
    tried.push(("PATCH", leases(&format!("/{MACHINE}-agent")), json!({"spec": {"holderIdentity": "x"}})));
    refused(&thief, tried).await;
}

/// With the credential that it works with.
pub(crate) async fn with_the_credential(stage: &Stage) {
    let thief = stage.machine().await;
    let named = |name: &str| format!("fieldSelector=metadata.name%3D{name}");
    let (plan, agent) = (format!("{MACHINE}-plan"), format!("{MACHINE}-agent"));
    for (method, path, body) in [
        ("GET", core(&format!("secrets/{plan}")), Value::Null),
        ("GET", format!("{}?{}", core("secrets"), named(&plan)), Value::Null),
        ("GET", reports(&format!("/{MACHINE}")), Value::Null),
        ("PATCH", reports(&format!("/{MACHINE}/status")), json!({"status": {"message": "hello"}})),
        ("PATCH", leases(&format!("/{agent}")), json!({"spec": {"holderIdentity": "x"}})),
    ] {
        let answer = thief.ask(method, &path, &body).await.unwrap();
        assert_eq!(answer.code, 200, "it may: {method} {path}: {answer:?}");
    }
    let mut tried = common(stage).await;
    tried.extend([
        ("PATCH", core(&format!("secrets/{plan}")), json!({"data": {"plan": "eA=="}})),
        ("PUT", core(&format!("secrets/{plan}")), json!({"metadata": {"name": plan}, "data": {}})),
        ("DELETE", core(&format!("secrets/{plan}")), Value::Null),
        ("DELETE", leases(&format!("/{agent}")), Value::Null),
        ("GET", leases(""), Value::Null),
        ("GET", format!("{}?{}", leases(""), named(&agent)), Value::Null),
    ]);
    // A real API server knows a new policy a little later.
    let [first, ..] = &more_of_its_lease()[..] else { unreachable!("some") };
    eventually(DEADLINE, "the policy to be known", async || {
        let answer = thief.ask(first.0, &format!("{}?dryRun=All", first.1), &first.2).await?;
        ensure!(answer.code == 403, "{answer:?}");
        Ok(())
    })
    .await
    .unwrap();
    tried.extend(more_of_its_lease());
    refused(&thief, tried).await;
}

/// Of its Lease a machine changes what a sign of life needs, and nothing that others act on.
fn more_of_its_lease() -> Vec<(&'static str, String, Value)> {
    let owner = json!([{"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "u"}]);
    let changes = [
        json!({"metadata": {"finalizers": ["example.com/forever"]}}),
        json!({"metadata": {"ownerReferences": owner}}),
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"spec": {"holderIdentity": "x".repeat(10_000)}}),
    ];
    changes.map(|change| ("PATCH", leases(&format!("/{MACHINE}-agent")), change)).to_vec()
}

/// What neither may.
async fn common(stage: &Stage) -> Vec<(&'static str, String, Value)> {
    let named = |name: &str| format!("fieldSelector=metadata.name%3D{name}");
    let rbac = |path: &str| group("rbac.authorization.k8s.io", "v1", path);
    let own = reports(&format!("/{MACHINE}"));
    let spec = json!({"spec": {"enrolledKey": null, "credential": null, "machineID": "life-2"}});
    let whole = stage.report().await;
    let binding = json!({
        "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": account(MACHINE), "namespace": NAMESPACE}],
    });
    let rule = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let role = json!({"metadata": {"name": "mine"}, "rules": [rule]});
    let csr = json!({"metadata": {"name": "mine"}, "spec": {
        "request": "eA==", "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
    }});
    let kinds = |path: &str| group("cluster.x-k8s.io", "v1beta2", path);
    vec![
        // Secrets: its neighbour's plan, all of them, those of other places.
        ("GET", core("secrets/web-1-plan"), Value::Null),
        ("GET", core("secrets"), Value::Null),
        ("GET", format!("{}?watch=true&timeoutSeconds=1", core("secrets")), Value::Null),
        ("GET", format!("{}?{}", core("secrets"), named("web-1-plan")), Value::Null),
        ("GET", "/api/v1/secrets".to_owned(), Value::Null),
        ("GET", "/api/v1/namespaces/kube-system/secrets".to_owned(), Value::Null),
        ("GET", format!("/api/v1/namespaces/default/secrets/{MACHINE}-plan"), Value::Null),
        ("POST", core("secrets"), json!({"metadata": {"name": "mine"}})),
        ("DELETE", core("secrets"), Value::Null),
        // Reports: the spec of its own, anything of another's.
        ("PATCH", own.clone(), spec.clone()),
        ("PUT", own.clone(), whole),
        ("DELETE", own, Value::Null),
        ("GET", reports("/web-1"), Value::Null),
        ("GET", reports(""), Value::Null),
        ("PATCH", reports("/web-1/status"), json!({"status": {"message": "I am web-1"}})),
        ("PATCH", reports("/web-1"), spec),
        (
            "POST",
            reports(""),
            json!({"metadata": {"name": "mine"}, "spec": {"machineName": "a", "machineID": "a"}}),
        ),
        // Leases of others.
        ("GET", leases("/web-1-agent"), Value::Null),
        ("PATCH", leases("/web-1-agent"), json!({"spec": {"holderIdentity": "me"}})),
        ("POST", leases(""), json!({"metadata": {"name": "mine"}})),
        // More rights.
        ("POST", rbac("rolebindings"), binding.clone()),
        ("POST", rbac("roles"), role.clone()),
        ("PATCH", rbac(&format!("roles/{MACHINE}-agent")), json!({"rules": role["rules"]})),
        ("GET", rbac("roles"), Value::Null),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings".to_owned(), binding),
        ("POST", core(&format!("serviceaccounts/{}/token", account(MACHINE))), json!({})),
        ("POST", core(&format!("serviceaccounts/{}/token", enrolling(MACHINE))), json!({})),
        ("POST", core("serviceaccounts/default/token"), json!({})),
        ("GET", core("serviceaccounts"), Value::Null),
        ("POST", core("serviceaccounts"), json!({"metadata": {"name": "mine"}})),
        // A certificate.
        ("POST", REQUESTS.to_owned(), csr),
        ("GET", REQUESTS.to_owned(), Value::Null),
        ("PATCH", format!("{REQUESTS}/mine/approval"), json!({"status": {"conditions": []}})),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews".to_owned(), json!({"spec": {"token": "x"}})),
        // Everything else that is worth something.
        ("GET", "/api/v1/namespaces".to_owned(), Value::Null),
        ("DELETE", format!("/api/v1/namespaces/{NAMESPACE}"), Value::Null),
        ("GET", "/api/v1/nodes".to_owned(), Value::Null),
        ("GET", core("configmaps"), Value::Null),
        ("POST", core("configmaps"), json!({"metadata": {"name": "mine"}})),
        ("POST", core("events"), json!({"metadata": {"name": "mine"}})),
        ("GET", kinds("machines"), Value::Null),
        ("GET", kinds("clusters"), Value::Null),
        ("PATCH", kinds(&format!("machines/{MACHINE}")), json!({"metadata": {"annotations": {"a": "b"}}})),
        ("GET", group("infrastructure.cluster.x-k8s.io", "v1alpha1", "hosts"), Value::Null),
        ("GET", group("bootstrap.cluster.x-k8s.io", "v1alpha1", "capstanconfigs"), Value::Null),
        ("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(), Value::Null),
        ("GET", "/metrics".to_owned(), Value::Null),
        ("GET", "/logs".to_owned(), Value::Null),
    ]
}

async fn refused(thief: &capstan_tests::Caller, tried: Vec<(&str, String, Value)>) {
    for (method, path, body) in tried {
        let answer = thief.ask(method, &path, &body).await.unwrap();
        assert_eq!(answer.code, 403, "{method} {path}: {answer:?}");
    }
    // Not as somebody else either.
    for (name, value) in [("Impersonate-User", "admin"), ("Impersonate-Group", "system:masters")] {
        let also = ("Impersonate-User", "admin");
        let answer =
            thief.ask_as("GET", &core("secrets"), &Value::Null, &[also, (name, value)]).await.unwrap();
        assert_eq!(answer.code, 403, "{name}: {answer:?}");
    }
}
