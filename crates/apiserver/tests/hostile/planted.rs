//! What must not be seen: values in a namespace that is not the client's, and a net that catches them wherever they come out.

use std::{
    io,
    sync::{Arc, Mutex, OnceLock},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use capstan_apiserver::User;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::support::{Caller, TestPlane, widget, widgets};

/// Found nowhere but in what was planted.
pub(crate) const VALUE: &str = "planted-5d1e9c";
pub(crate) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A plane with two namespaces, `mine` and `theirs`. Mallory may do everything in `mine` and nothing elsewhere.
pub(crate) async fn plane() -> TestPlane {
    logs();
    let plane = TestPlane::start().await;
    let admin = &plane.admin;
    for namespace in ["mine", "theirs"] {
        let object = json!({"metadata": {"name": namespace, "annotations": {"note": annotation(namespace)}}});
        admin.make("/api/v1/namespaces", &object).await;
    }
    admin.make(crate::support::CRDS, &widgets()).await;
    let encoded = STANDARD.encode(VALUE);
    admin.make(&theirs("secrets"), &json!({"metadata": {"name": "s"}, "data": {"k": encoded}})).await;
    admin.make(&theirs("secrets"), &json!({"metadata": {"name": "own", "labels": {"a": "b"}}})).await;
    let labels = json!({"label": VALUE});
    admin
        .make(
            &theirs("configmaps"),
            &json!({"metadata": {"name": "s", "labels": labels}, "data": {"k": VALUE}}),
        )
        .await;
    admin
        .make(&theirs("serviceaccounts"), &json!({"metadata": {"name": "s", "annotations": {"note": VALUE}}}))
        .await;
    let mut planted = widget("s", json!({"size": "S"}));
    planted["metadata"]["annotations"] = json!({"note": VALUE});
    admin.make("/apis/example.com/v1/namespaces/theirs/widgets", &planted).await;
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    admin
        .make(
            &format!("{RBAC}/clusterroles"),
            &json!({"metadata": {"name": "s", "annotations": {"note": VALUE}}}),
        )
        .await;
    grant(&plane, "mine", "mallory", &rules).await;
    plane
}

fn annotation(namespace: &str) -> &str {
    if namespace == "theirs" { VALUE } else { "nothing" }
}

pub(crate) fn theirs(resource: &str) -> String {
    format!("/api/v1/namespaces/theirs/{resource}")
}

pub(crate) fn mine(resource: &str) -> String {
    format!("/api/v1/namespaces/mine/{resource}")
}

/// Gives a user rules in a namespace.
pub(crate) async fn grant(plane: &TestPlane, namespace: &str, user: &str, rules: &Value) {
    let role = json!({"metadata": {"name": user}, "rules": rules});
    plane.admin.make(&format!("{RBAC}/namespaces/{namespace}/roles"), &role).await;
    let binding = json!({
        "metadata": {"name": user}, "roleRef": {"kind": "Role", "name": user}, "subjects": [{"kind": "User", "name": user}],
    });
    plane.admin.make(&format!("{RBAC}/namespaces/{namespace}/rolebindings"), &binding).await;
}

/// Who tries.
pub(crate) fn attackers(plane: &TestPlane) -> Vec<(&'static str, Caller)> {
    let groups = vec!["system:unauthenticated".to_owned()];
    let nobody = User { groups, ..User::new("system:anonymous", [""; 0]) };
    vec![
        ("mallory", plane.caller(User::new("mallory", ["x"]))),
        ("somebody", plane.caller(User::new("somebody", ["x"]))),
        ("nobody", plane.caller(nobody)),
    ]
}

/// An answer, with all that was in it.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) text: String,
}

impl Answer {
    /// Fails if anything that was planted is in it.
    pub(crate) fn keeps_silent(self, what: &str) -> Self {
        assert!(!contains_planted_value(&self.text), "{what} tells: {}", self.text);
        self
    }
}

fn contains_planted_value(text: &str) -> bool {
    text.contains(VALUE) || text.contains(&STANDARD.encode(VALUE))
}

/// Sends a request and takes the answer, or the beginning of it if it does not end.
pub(crate) async fn ask(
    caller: &Caller,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let mut response = caller.0.clone().call(request).await.unwrap();
    let mut text = format!("{:?}", response.headers());
    let code = response.status().as_u16();
    let watch = path.contains("watch=1") && code == 200;
    while let Some(frame) = response.body_mut().frame().await {
        text.push_str(&String::from_utf8_lossy(&frame.unwrap().into_data().unwrap()));
        if watch {
            break;
        }
    }
    Answer { code, text }
}

/// What has been logged so far, of everything there is to log.
pub(crate) fn logs() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        log
    })
}

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn keeps_silent(&self) {
        let text = String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned();
        let telling: Vec<&str> = text.lines().filter(|line| contains_planted_value(line)).collect();
        assert!(telling.is_empty(), "logged: {telling:?}");
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
