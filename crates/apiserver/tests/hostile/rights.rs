//! Every verb, every way to ask and every form of answer, for what the rules deny.

use capstan_apiserver::User;
use serde_json::json;

use crate::planted::{Answer, RBAC, VALUE, ask, attackers, grant, logs, mine, plane, theirs};

const SUBRESOURCES: [&str; 12] = [
    "",
    "/status",
    "/scale",
    "/finalizers",
    "/finalize",
    "/token",
    "/approval",
    "/eviction",
    "/log",
    "/exec",
    "/proxy/x",
    "/nothing",
];
const FORMS: [&str; 4] = [
    "application/json",
    "application/yaml",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
];
const QUERIES: [&str; 12] = [
    "",
    "watch=1",
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    "dryRun=All",
    "fieldManager=m&force=true",
    "limit=1",
    "resourceVersion=0",
    "resourceVersion=5&resourceVersionMatch=Exact",
    "labelSelector=label%3Dplanted-5d1e9c",
    "fieldSelector=metadata.name%3Ds",
    "fieldSelector=metadata.namespace%3Dmine",
    "includeObject=Object",
];
const WRITES: [(&str, &str, &str); 8] = [
    ("POST", "application/json", "{}"),
    ("PUT", "application/json", r#"{"metadata":{"name":"s"}}"#),
    ("PATCH", "application/json-patch+json", r#"[{"op":"test","path":"/data/k","value":"x"}]"#),
    ("PATCH", "application/merge-patch+json", "{}"),
    ("PATCH", "application/strategic-merge-patch+json", "{}"),
    ("PATCH", "application/apply-patch+yaml", "{}"),
    ("DELETE", "application/json", r#"{"dryRun":["All"]}"#),
    ("DELETE", "application/json", r#"{"preconditions":{"uid":"x"}}"#),
];

/// What there is, and by its side what there is not: both look the same from outside.
fn targets() -> Vec<(String, &'static str)> {
    let rbac = |resource: &str| format!("{RBAC}/{resource}");
    vec![
        (theirs("secrets"), "/s"),
        (theirs("configmaps"), "/s"),
        (theirs("serviceaccounts"), "/s"),
        ("/apis/example.com/v1/namespaces/theirs/widgets".to_owned(), "/s"),
        ("/api/v1/namespaces".to_owned(), "/theirs"),
        ("/api/v1/secrets".to_owned(), ""),
        ("/apis/example.com/v1/widgets".to_owned(), ""),
        (rbac("clusterroles"), "/s"),
        (rbac("namespaces/theirs/roles"), "/s"),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(), "/widgets.example.com"),
        ("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations".to_owned(), "/s"),
        ("/apis/certificates.k8s.io/v1/certificatesigningrequests".to_owned(), "/s"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_read_by_any_verb_in_any_form() {
    let plane = plane().await;
    for (who, caller) in &attackers(&plane) {
        for (collection, name) in targets() {
            let mut paths = vec![collection.clone(), format!("{collection}/missing")];
            paths.extend(SUBRESOURCES.map(|sub| format!("{collection}{name}{sub}")));
            for path in &paths {
                for query in QUERIES {
                    let uri = format!("{path}?{query}");
                    for form in FORMS {
                        let what = format!("{who}: GET {uri} as {form}");
                        let answer =
                            ask(caller, "GET", &uri, &[("accept", form)], "").await.keeps_silent(&what);
                        assert_eq!(answer.code, 403, "{what}: {}", answer.text);
                    }
                }
                for (method, media, body) in WRITES {
                    for query in ["", "dryRun=All", "fieldManager=m&force=true"] {
                        let what = format!("{who}: {method} {path}?{query} with {media}");
                        let headers = [("content-type", media)];
                        let answer = ask(caller, method, &format!("{path}?{query}"), &headers, body).await;
                        assert_eq!(answer.keeps_silent(&what).code, 403, "{what}");
                    }
                }
                ask(caller, "HEAD", path, &[], "").await.keeps_silent(path);
                ask(caller, "OPTIONS", path, &[], "").await.keeps_silent(path);
            }
            // What is not there is refused in the same words.
            let [there, missing] = [name, "/missing"].map(|name| format!("{collection}{name}"));
            if !name.is_empty() {
                let words = async |path: &str| ask(caller, "GET", path, &[], "").await.text;
                let name = name.trim_start_matches('/');
                let there = words(&there).await.replace(&format!(r#"\"{name}\""#), r#"\"missing\""#);
                let there = there.replace(&format!(r#""{name}""#), r#""missing""#);
                let missing = words(&missing).await.replace("theirs", "missing");
                let strip = |text: &str| text.split("audit-id").nth(1).unwrap_or_default()[40..].to_owned();
                assert_eq!(strip(&there.replace("theirs", "missing")), strip(&missing));
            }
        }
    }
    logs().keeps_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_leads_from_one_namespace_to_another() {
    let plane = plane().await;
    let mallory = &plane.caller(User::new("mallory", ["x"]));
    let planted_token = {
        let (_, list) = plane.admin.get("/api/v1/secrets?limit=1").await;
        list["metadata"]["continue"].as_str().unwrap().to_owned()
    };
    assert_eq!(mallory.get(&mine("secrets")).await.0, 200, "she may read her own");
    let reads = [
        "/api/v1/namespaces/mine/namespaces/theirs".to_owned(),
        "/api/v1/namespaces/mine/namespaces/theirs/status".to_owned(),
        "/api/v1/namespaces/mine/namespaces".to_owned(),
        "/api/v1/namespaces/mine/namespaces?watch=1".to_owned(),
        "/api/v1/namespaces/mine/nodes".to_owned(),
        format!("{RBAC}/namespaces/mine/clusterroles/s"),
        "/apis/apiextensions.k8s.io/v1/namespaces/mine/customresourcedefinitions".to_owned(),
        "/api/v1/namespaces/mine/../theirs/secrets/s".to_owned(),
        "/api/v1/namespaces/mine%2F..%2Ftheirs/secrets/s".to_owned(),
        "/api/v1/namespaces/mine/secrets/..%2F..%2Ftheirs%2Fsecrets%2Fs".to_owned(),
        "/api/v1/namespaces/mine//theirs/secrets/s".to_owned(),
        "//api/v1/namespaces/theirs/secrets/s".to_owned(),
        "/api/v1/watch/namespaces/theirs/secrets".to_owned(),
        "/api/v1/proxy/namespaces/theirs/secrets/s".to_owned(),
        format!("/api/v1/namespaces/mine/secrets?continue={planted_token}"),
        "/api/v1/namespaces/mine/secrets?resourceVersion=1&resourceVersionMatch=Exact".to_owned(),
        "/api/v1/namespaces/mine/secrets?fieldSelector=metadata.namespace%3Dtheirs".to_owned(),
        "/api/v1/namespaces/mine/secrets?namespace=theirs".to_owned(),
    ];
    for path in &reads {
        let Answer { code, text } = ask(mallory, "GET", path, &[], "").await.keeps_silent(path);
        assert!([200, 400, 403, 404, 410].contains(&code), "GET {path}: {code} {text}");
        let empty = text.contains(r#""items":[]"#) || text.contains("Status");
        assert!(empty, "GET {path}: {text}");
    }
    for path in [&reads[0], &reads[2]] {
        for (method, media) in
            [("PUT", "json"), ("PATCH", "merge-patch+json"), ("DELETE", "json"), ("POST", "json")]
        {
            let headers = [("content-type", &*format!("application/{media}"))];
            let body =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "theirs"}}).to_string();
            let answer = ask(mallory, method, path, &headers, &body).await;
            assert_eq!(answer.code, 404, "{method} {path}: {}", answer.text);
        }
    }
    let (_, namespace) = plane.admin.get("/api/v1/namespaces/theirs").await;
    assert!(
        namespace["metadata"]["deletionTimestamp"].is_null()
            && namespace["metadata"]["annotations"]["note"] == VALUE
    );
    logs().keeps_silent();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_to_one_name_or_one_verb_is_no_more_than_that() {
    let plane = plane().await;
    let named =
        json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["own"], "verbs": ["*"]}]);
    grant(&plane, "theirs", "named", &named).await;
    let adds = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}]);
    grant(&plane, "theirs", "adder", &adds).await;
    let named = plane.caller(User::new("named", ["x"]));
    let secrets = theirs("secrets");
    let selected = |selector: &str| format!("{secrets}?fieldSelector={selector}");
    assert_eq!(named.get(&selected("metadata.name%3Down")).await.0, 200);
    let mut queries = vec![
        selected("metadata.name%3Ds"),
        selected("metadata.name%21%3Down"),
        selected("metadata.name%3Down%2Cmetadata.name%3Ds"),
        selected("metadata.name%3Ds%2Cmetadata.name%3Down"),
        selected("metadata.name%3Ds&fieldSelector=metadata.name%3Down"),
        selected("metadata.name%3Down&fieldSelector=metadata.name%3Ds"),
        selected("metadata.name%3Down%5C%2C"),
        selected("&fieldSelector=metadata.name%3Down"),
        selected("metadata.name%3D"),
        selected("metadata.name%3Down&labelSelector=a%21%3Db"),
        "/api/v1/secrets?fieldSelector=metadata.name%3Down".to_owned(),
        format!("{secrets}/s"),
        format!("{secrets}/own/../s"),
        secrets.clone(),
    ];
    queries.extend(
        queries.clone().iter().map(|path| {
            format!("{path}{}watch=1&timeoutSeconds=1", if path.contains('?') { '&' } else { '?' })
        }),
    );
    for path in queries {
        let answer = ask(&named, "GET", &path, &[], "").await.keeps_silent(&path);
        assert!(!answer.text.contains(r#""metadata":{"name":"s""#), "{path}: {}", answer.text);
    }
    let sweep = ask(&named, "DELETE", &selected("metadata.name%3Down"), &[], "").await;
    assert_eq!(sweep.code, 403, "deletecollection goes by no name: {}", sweep.text);

    let adder = plane.caller(User::new("adder", ["x"]));
    let (code, refusal) = adder.post(&secrets, &json!({"metadata": {"name": "s"}, "data": {"k": ""}})).await;
    assert_eq!(code, 409);
    assert!(!refusal.to_string().contains(VALUE));
    let (code, _) = adder.put(&format!("{secrets}/s"), &json!({"metadata": {"name": "s"}})).await;
    assert_eq!(code, 403);
    let applied = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "fresh"}});
    assert_eq!(adder.apply(&format!("{secrets}/fresh?fieldManager=m"), &applied).await.0, 403);
    logs().keeps_silent();
}
