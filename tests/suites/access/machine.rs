//! The way of a machine: a token that dies with a Secret, a request, a certificate, and the end of its rights.

use capstan_testkit::eventually;
use capstan_tests::{Caller, Credential};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

use crate::DEADLINE;
use crate::script::{NAMESPACE, Script, account, binding, core, rbac, role};

const USER: &str = "capstan:machine:yard:m";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

pub(crate) async fn enrols(script: &mut Script) {
    script.make(&core("serviceaccounts"), json!({"metadata": {"name": "m"}})).await;
    for name in ["m-plan", "other-plan", "m-enrolment"] {
        script.make(&core("secrets"), json!({"metadata": {"name": name}})).await;
    }
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
    script.make(&lease, json!({"metadata": {"name": "m"}, "spec": {}})).await;
    let token = tokens(script).await;
    let machine = script.with(Credential::Token(&token)).await;
    a_token_alone(script, &machine).await;
    a_role_by_names(script, &machine).await;
    the_end_of_a_token(script, &machine).await;
    requests(script).await;
    certificates(script, &lease).await;
}

/// Asks for tokens, good and bad; gives one that is bound to a Secret.
async fn tokens(script: &mut Script) -> String {
    let admin = script.admin.clone();
    let line = format!("POST {}", core("serviceaccounts/m/token"));
    let secret = |name: &str, uid: &str| json!({"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": name, "uid": uid}}});
    let cases = [
        (422, json!({"spec": {"expirationSeconds": 599}})),
        (422, json!({"spec": {"expirationSeconds": 1_u64 << 33}})),
        (422, json!({"metadata": {"name": "another"}})),
        (409, json!({"metadata": {"uid": "nobody's"}})),
        (404, secret("none", "")),
        (409, secret("m-enrolment", "another")),
        (400, json!({"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}}})),
    ];
    for (code, body) in cases {
        script.expect(code, &admin, &line, body).await;
    }
    script.expect(404, &admin, &format!("POST {}", core("serviceaccounts/none/token")), json!({})).await;
    script.expect(405, &admin, &format!("GET {}", core("serviceaccounts/m/token")), Value::Null).await;

    let elsewhere = json!({"spec": {"audiences": ["elsewhere"]}});
    let elsewhere = script.expect(201, &admin, &line, elsewhere).await;
    let elsewhere = elsewhere["status"]["token"].as_str().unwrap().to_owned();
    let stranger = script.with(Credential::Token(&elsewhere)).await;
    script.expect(401, &stranger, "GET /api", Value::Null).await;

    let mut body = secret("m-enrolment", "");
    body["spec"]["expirationSeconds"] = 1200.into();
    let answer = script.expect(201, &admin, &line, body).await;
    let token = answer["status"]["token"].as_str().unwrap().to_owned();
    let claims = claims(&token);
    let number = |claim: &str| claims[claim].as_i64().unwrap();
    script.note("life", &format!("{} {}", number("exp") - number("iat"), number("iat") - number("nbf")));
    for claim in ["iss", "aud", "sub", "kubernetes.io"] {
        script.note(claim, &sorted(&claims[claim]).to_string());
    }
    assert!(!claims["jti"].as_str().unwrap().is_empty());
    let until =
        answer["status"]["expirationTimestamp"].as_str().unwrap().parse::<k8s_openapi::jiff::Timestamp>();
    assert!((until.unwrap().as_second() - number("exp")).abs() <= 1);
    token
}

fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap().replace('-', "+").replace('_', "/");
    let padded = format!("{part}{}", "=".repeat((4 - part.len() % 4) % 4));
    let bytes: k8s_openapi::ByteString = serde_json::from_value(padded.into()).unwrap();
    serde_json::from_slice(&bytes.0).unwrap()
}

/// With its fields in order, at every depth.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> =
                fields.iter().map(|(name, value)| (name.clone(), sorted(value))).collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// Without a role, a token is good for discovery and for asking who one is.
async fn a_token_alone(script: &mut Script, machine: &Caller) {
    for path in ["/api", "/apis", "/version", "/healthz", "/openapi/v3"] {
        script.expect(200, machine, &format!("GET {path}"), Value::Null).await;
    }
    let line = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews";
    let own = script.expect(201, machine, line, json!({})).await;
    for field in ["username", "groups", "uid"] {
        script.note(field, &own["status"]["userInfo"][field].to_string());
    }
    for line in [
        format!("GET {}", core("secrets/m-plan")),
        format!("GET {}", core("secrets")),
        format!("DELETE {}", core("secrets/m-plan")),
        "GET /api/v1/namespaces".to_owned(),
        "GET /metrics".to_owned(),
        format!("GET {REQUESTS}"),
    ] {
        script.expect(403, machine, &line, Value::Null).await;
    }
    script.expect(403, machine, &format!("POST {}", core("serviceaccounts/m/token")), json!({})).await;
    let review = json!({"spec": {"token": "x"}});
    script.expect(403, machine, "POST /apis/authentication.k8s.io/v1/tokenreviews", review).await;
    let forged = script.with(Credential::Token("eyJhbGciOiJub25lIn0.e30.")).await;
    script.expect(401, &forged, "GET /api", Value::Null).await;
    let nobody = script.with(Credential::None).await;
    script.expect(403, &nobody, "GET /api", Value::Null).await;
    script.expect(200, &nobody, "GET /version", Value::Null).await;
}

/// One object by its name, by every verb that reads it; no other by any.
async fn a_role_by_names(script: &mut Script, machine: &Caller) {
    let rules = json!([
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["m-plan"], "verbs": ["get", "list", "watch"]},
    ]);
    script.make(&rbac("roles"), role("m", rules)).await;
    script.make(&rbac("rolebindings"), binding("m", "Role", "m", account("m"))).await;
    script.expect(200, machine, &format!("GET {}", core("secrets/m-plan")), Value::Null).await;
    let secrets = |query: &str| format!("GET {}?{query}", core("secrets"));
    let named = "fieldSelector=metadata.name%3Dm-plan";
    let list = script.expect(200, machine, &secrets(named), Value::Null).await;
    script.note("listed", &list["items"][0]["metadata"]["name"].to_string());
    let line = secrets(&format!("{named}&watch=true&timeoutSeconds=1"));
    let event = script.expect(200, machine, &line, Value::Null).await;
    script.note("watched", &format!("{} {}", event["type"], event["object"]["metadata"]["name"]));
    let two = secrets("fieldSelector=metadata.name%3Dm-plan,metadata.name%3Dother-plan");
    let none = script.expect(200, machine, &two, Value::Null).await;
    script.note("two names", &none["items"].as_array().map_or(9, Vec::len).to_string());
    for line in [
        format!("GET {}", core("secrets/other-plan")),
        format!("GET {}", core("secrets")),
        secrets("watch=true&timeoutSeconds=1"),
        secrets("fieldSelector=metadata.name%3Dother-plan"),
        secrets("fieldSelector=metadata.name%21%3Dx"),
        secrets("fieldSelector=type%3DOpaque"),
        secrets("labelSelector=a%3Db"),
        format!("GET /api/v1/secrets?{named}"),
        format!("DELETE {}?{named}", core("secrets")),
        format!("DELETE {}", core("secrets/m-plan")),
    ] {
        script.expect(403, machine, &line, Value::Null).await;
    }
    for method in ["PATCH", "PUT"] {
        script
            .expect(403, machine, &format!("{method} {}", core("secrets/m-plan")), json!({"data": {}}))
            .await;
    }
}

/// The token dies with the Secret it is bound to, and another of the same name does not bring it back.
async fn the_end_of_a_token(script: &mut Script, machine: &Caller) {
    script.remove(&core("secrets/m-enrolment")).await;
    let line = format!("GET {}", core("secrets/m-plan"));
    script.expect(401, machine, &line, Value::Null).await;
    script.make(&core("secrets"), json!({"metadata": {"name": "m-enrolment"}})).await;
    script.expect(401, machine, &line, Value::Null).await;

    script.make(&core("serviceaccounts"), json!({"metadata": {"name": "short"}})).await;
    let answer = script.make(&core("serviceaccounts/short/token"), json!({})).await;
    let token = answer["status"]["token"].as_str().unwrap().to_owned();
    let short = script.with(Credential::Token(&token)).await;
    script.expect(200, &short, "GET /api", Value::Null).await;
    script.remove(&core("serviceaccounts/short")).await;
    script.make(&core("serviceaccounts"), json!({"metadata": {"name": "short"}})).await;
    script.expect(401, &short, "GET /api", Value::Null).await;
}

struct Asked {
    pem: Value,
    key: String,
}

fn ask(name: &str, groups: &[&str]) -> Asked {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    // rcgen keeps one value for each type: a second group needs a second spelling.
    let types = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
    for (kind, group) in types.into_iter().zip(groups) {
        params.distinguished_name.push(kind, *group);
    }
    let key = KeyPair::generate().unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let pem = serde_json::to_value(k8s_openapi::ByteString(pem.into_bytes())).unwrap();
    Asked { pem, key: key.serialize_pem() }
}

fn request(name: &str, pem: &Value, usages: &[&str]) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"request": pem, "signerName": SIGNER, "usages": usages, "expirationSeconds": 3600, "username": "forged"},
    })
}

fn condition(kind: &str) -> Value {
    json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": "r", "message": "m"}]}})
}

/// Requests that are refused, and those that are never signed.
async fn requests(script: &mut Script) {
    let admin = script.admin.clone();
    let good = ask(USER, &["capstan:machines"]);
    let post = format!("POST {REQUESTS}");
    let change = |field: &str, value: Value| {
        let mut body = request("bad", &good.pem, &["client auth"]);
        body["spec"][field] = value;
        body
    };
    for (field, value) in [
        ("expirationSeconds", json!(599)),
        ("usages", json!([])),
        ("usages", json!(["client auth", "client auth"])),
        ("usages", json!(["nonsense"])),
        ("signerName", json!("no-domain")),
        ("signerName", json!("kubernetes.io/legacy-unknown")),
        ("request", json!("bm9uc2Vuc2U=")),
    ] {
        let answer = admin.ask("POST", REQUESTS, &change(field, value.clone())).await.unwrap();
        // Of the words only which field: upstream prints the request byte by byte.
        let fields: Vec<_> = answer.body["details"]["causes"].as_array().into_iter().flatten().collect();
        let fields: Vec<_> =
            fields.iter().map(|cause| format!("{} {}", cause["field"], cause["reason"])).collect();
        script.note(&format!("{field} {value}"), &format!("{} {fields:?}", answer.code));
    }
    let masters = ask("jane", &["ops", "system:masters"]);
    script.expect(403, &admin, &post, request("bad", &masters.pem, &["client auth"])).await;

    let made = script.expect(201, &admin, &post, request("denied", &good.pem, &["client auth"])).await;
    script.note("forged", &(made["spec"]["username"] == "forged").to_string());
    let path = |name: &str, side: &str| format!("{REQUESTS}/{name}{side}");
    // Approval is a subresource.
    for side in ["", "/status"] {
        let code = if side.is_empty() { 200 } else { 422 };
        script.expect(code, &admin, &format!("PATCH {}", path("denied", side)), condition("Approved")).await;
    }
    let changed = json!({"spec": {"username": "forged", "signerName": "example.com/x"}});
    let kept = script.expect(200, &admin, &format!("PATCH {}", path("denied", "")), changed).await;
    script.note("kept", &format!("{} {}", kept["spec"]["signerName"], kept["status"]));
    let approval = format!("PATCH {}", path("denied", "/approval"));
    script.expect(200, &admin, &approval, condition("Denied")).await;
    let both = json!({"status": {"conditions": [
        {"type": "Denied", "status": "True"}, {"type": "Approved", "status": "True"},
    ]}});
    script.expect(422, &admin, &approval, both).await;
    script.expect(422, &admin, &approval, json!({"status": {"conditions": []}})).await;
    let wrong = json!({"status": {"conditions": [{"type": "Denied", "status": "False"}]}});
    script.expect(422, &admin, &approval, wrong).await;

    script.make(REQUESTS, request("usage", &good.pem, &["client auth", "server auth"])).await;
    script.expect(200, &admin, &format!("PATCH {}", path("usage", "/approval")), condition("Approved")).await;
    let failed = eventually(DEADLINE, "the usage to be refused", async || {
        let answer = admin.ask("GET", &path("usage", ""), &Value::Null).await?;
        let found = answer.body["status"]["conditions"]
            .as_array()
            .and_then(|all| all.iter().find(|condition| condition["type"] == "Failed").cloned());
        anyhow::Context::context(found, "not yet")
    })
    .await
    .unwrap();
    script.note("failed", &format!("{} {}", failed["reason"], failed["message"]));
}

/// An approved request becomes a certificate, which is good for what its user may do, and for nothing once that is
/// nothing.
async fn certificates(script: &mut Script, lease: &str) {
    let admin = script.admin.clone();
    let asked = ask(USER, &["capstan:machines", "second"]);
    let usages = ["client auth", "digital signature"];
    script.make(REQUESTS, request("m", &asked.pem, &usages)).await;
    let line = format!("PATCH {REQUESTS}/m/approval");
    script.expect(200, &admin, &line, condition("Approved")).await;
    let encoded = eventually(DEADLINE, "the certificate", async || {
        let answer = admin.ask("GET", &format!("{REQUESTS}/m"), &Value::Null).await?;
        anyhow::Context::context(answer.body["status"]["certificate"].as_str().map(str::to_owned), "not yet")
    })
    .await
    .unwrap();
    let pem: k8s_openapi::ByteString = serde_json::from_value(encoded.into()).unwrap();
    let pem = String::from_utf8(pem.0).unwrap();
    let machine = script.with(Credential::Certificate(&pem, &asked.key)).await;
    let line = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews";
    let own = script.expect(201, &machine, line, json!({})).await;
    script.note("user", &own["status"]["userInfo"]["username"].to_string());
    // In whatever order: upstream's signer writes the organizations anew, and sorts them.
    let mut groups: Vec<_> = own["status"]["userInfo"]["groups"].as_array().unwrap().clone();
    groups.sort_by_key(Value::to_string);
    script.note("groups", &Value::Array(groups).to_string());
    let reset = json!({"status": {"certificate": "eA=="}});
    script.expect(422, &admin, &format!("PATCH {REQUESTS}/m/status"), reset).await;

    let get = format!("GET {}", core("secrets/m-plan"));
    script.expect(403, &machine, &get, Value::Null).await;
    let rules = json!([
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["m-plan"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["m"], "verbs": ["get", "update", "patch"]},
    ]);
    script.make(&rbac("roles"), role("enrolled", rules)).await;
    let user = json!({"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"});
    script.make(&rbac("rolebindings"), binding("enrolled", "Role", "enrolled", user)).await;
    script.expect(200, &machine, &get, Value::Null).await;
    let renew = json!({"spec": {"holderIdentity": "m", "renewTime": "2026-01-01T00:00:00.000000Z"}});
    script.expect(200, &machine, &format!("PATCH {lease}/m"), renew).await;
    script.expect(403, &machine, &format!("PATCH {lease}/other"), json!({})).await;
    script.expect(403, &machine, &format!("POST {lease}"), json!({"metadata": {"name": "other"}})).await;
    // An update of what is not there would make it: a right that was not given.
    script.remove(&format!("{lease}/m")).await;
    let whole = json!({"metadata": {"name": "m"}, "spec": {"holderIdentity": "m"}});
    script.expect(403, &machine, &format!("PUT {lease}/m"), whole.clone()).await;
    script.make(lease, whole).await;
    script.remove(&rbac("rolebindings/enrolled")).await;
    script.expect(403, &machine, &get, Value::Null).await;
    script.expect(403, &machine, &format!("GET {lease}/m"), Value::Null).await;

    // A certificate of somebody else's authority is told so, and let in with nothing.
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::default().self_signed(&key).unwrap().pem();
    let stranger = script.with(Credential::Certificate(&own, &key.serialize_pem())).await;
    script.expect(401, &stranger, "GET /version", Value::Null).await;
}
