//! One API server in memory for all requests of a process, and what makes an answer a failure.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use capstan_apiserver::{ApiServer, Authority, InProcess, Options, Storage, User};
use capstan_pki::issue;
use http::{Request, request::Builder};
use http_body_util::{BodyExt as _, Full};
use rcgen::BasicConstraints;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tower_service::Service as _;

pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The largest answer that there is a reason for, in bytes.
const LARGEST: usize = 32 << 20;

/// A server and its administrator.
pub(crate) struct FuzzedPlane {
    runtime: Runtime,
    /// Stops with the process.
    _server: Arc<ApiServer>,
    admin: InProcess,
}

/// What the server has answered.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

/// The server for everything that does not change it, with a custom kind and an object of it.
pub(crate) fn plane() -> &'static FuzzedPlane {
    static PLANE: OnceLock<FuzzedPlane> = OnceLock::new();
    PLANE.get_or_init(|| {
        let ca = issue::authority("clients", BasicConstraints::Constrained(0));
        let ca = issue::self_signed(&ca).expect("a CA can be made");
        let mut options = Options::new(Storage::Memory);
        options.client_authority = Some(Authority { certificate: ca.certificate, key: ca.key });
        let plane = FuzzedPlane::open(options);
        plane.create(CRDS, &crd());
        plane.create(WIDGETS, &widget());
        plane.create(MAPS, &map());
        plane
    })
}

/// Panics unless the API server still works and has the objects that it began with.
pub fn works() {
    for (collection, object) in [(MAPS, map()), (WIDGETS, widget())] {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let found = plane().ask(Request::get(format!("{collection}/{name}")), &[]).expect("a request");
        assert_eq!((found.code, &found.body["metadata"]["name"]), (200, &object["metadata"]["name"]));
        assert_eq!(found.body["metadata"]["generation"].as_u64().unwrap_or(1), 1, "an input has changed it");
    }
}

impl FuzzedPlane {
    pub(crate) fn open(options: Options) -> Self {
        // One thread: its stack is as large as the main thread's, which the fuzzer is started with as small as that of a
        // worker of the product.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let server = runtime.block_on(ApiServer::open(options)).expect("the server opens");
        let admin = server.service(User::admin());
        Self { runtime, _server: server, admin }
    }

    /// Sends a request; none if it cannot be written as one. Panics if the server answers with a failure of its own.
    pub(crate) fn ask(&self, request: Builder, body: &[u8]) -> Option<Answer> {
        let body = Full::new(Bytes::copy_from_slice(body));
        let request = request.header("user-agent", "fuzz").body(body).ok()?;
        let what = format!("{} {}", request.method(), request.uri());
        let is_watch = is_watch(request.uri().query().unwrap_or_default());
        let (code, body) = self.runtime.block_on(async {
            let response = self.admin.clone().call(request).await.expect("infallible");
            let code = response.status().as_u16();
            // A watch may go on for ever.
            if is_watch && code == 200 {
                return (code, Bytes::new());
            }
            (code, response.into_body().collect().await.expect("infallible").to_bytes())
        });
        assert!(body.len() < LARGEST, "{what} is answered with {} bytes", body.len());
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        assert!(!is_failure(code, &body), "{what} is answered with {code}: {body}");
        Some(Answer { code, body })
    }

    /// Waits for something that the server does by itself.
    pub(crate) fn wait(&self, time: std::time::Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    pub(crate) fn create(&self, collection: &str, object: &Value) -> Value {
        let request = Request::post(collection).header("content-type", "application/json");
        let answer = self.ask(request, object.to_string().as_bytes()).expect("a request");
        assert_eq!(answer.code, 201, "{}", answer.body);
        answer.body
    }
}

fn is_watch(query: &str) -> bool {
    form_urlencoded::parse(query.as_bytes()).any(|(key, _)| key == "watch")
}

/// Whether the server says that something is wrong with itself.
fn is_failure(code: u16, body: &Value) -> bool {
    match code {
        // A resourceVersion that is yet to come.
        504 => false,
        // A patch that cannot be applied is rejected with this code and without a reason, as upstream does.
        500 => body.is_null() || !body["reason"].is_null(),
        code => code > 500,
    }
}

fn map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "v"}})
}

fn widget() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "labels": {"a": "b"}},
        "spec": {"size": "S", "parts": [{"name": "a", "n": 1}], "tags": ["x"], "any": {"deep": [1, {"b": null}]}},
    })
}

/// A kind whose schema has one of everything.
fn crd() -> Value {
    let part = json!({
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "n": {"type": "integer", "minimum": 0}},
    });
    let spec = json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "!has(self.replicas) || self.replicas < 100", "message": "too many"}],
        "properties": {
            "size": {"type": "string", "enum": ["S", "L"]},
            "replicas": {"type": "integer", "default": 1},
            "big": {"type": "integer", "format": "int64"},
            "when": {"type": "string", "format": "date-time"},
            "port": {"x-kubernetes-int-or-string": true},
            "parts": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "maxItems": 20, "items": part,
            },
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 20, "items": {"type": "string"}},
            "limits": {"type": "object", "additionalProperties": {"type": "string", "pattern": "^[0-9]+$"}},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "selectableFields": [{"jsonPath": ".spec.size"}],
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "string", "jsonPath": ".spec.size"},
                    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                ],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": spec,
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    })
}
