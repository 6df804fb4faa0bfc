//! What the tests share: a server in memory, plain requests, and waiting with a deadline.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::needless_pass_by_value)]

pub mod pki;
pub mod webhook;

use std::{future::Future, sync::Arc, time::Duration};

use capstan_apiserver::{ApiServer, Body, InProcess, Options, Storage, User};
use http::{Request, Response, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower_service::Service;

/// A server in memory and its administrator.
pub struct TestPlane {
    pub server: Arc<ApiServer>,
    pub admin: Caller,
}

impl TestPlane {
    pub async fn start() -> Self {
        Self::open(Options::new(Storage::Memory)).await
    }

    pub async fn open(options: Options) -> Self {
        let server = ApiServer::open(options).await.expect("the server opens");
        let admin = Caller(server.service(User::admin()));
        Self { server, admin }
    }

    pub fn caller(&self, user: User) -> Caller {
        Caller(self.server.service(user))
    }
}

/// Sends plain requests as one user.
#[derive(Clone)]
pub struct Caller(pub InProcess);

impl Caller {
    pub async fn send(&self, method: &str, path: &str, media: &str, body: &Value) -> Response<Body> {
        let bytes = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, media)
            .header("user-agent", "test/1")
            .body(Full::new(bytes::Bytes::from(bytes)))
            .expect("a request");
        self.0.clone().call(request).await.expect("infallible")
    }

    pub async fn call(&self, method: &str, path: &str, media: &str, body: &Value) -> (u16, Value) {
        let response = self.send(method, path, media, body).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.expect("infallible").to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.call("GET", path, "", &Value::Null).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.call("POST", path, "application/json", body).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> (u16, Value) {
        self.call("PUT", path, "application/json", body).await
    }

    pub async fn merge(&self, path: &str, body: &Value) -> (u16, Value) {
        self.call("PATCH", path, "application/merge-patch+json", body).await
    }

    pub async fn apply(&self, path: &str, body: &Value) -> (u16, Value) {
        self.call("PATCH", path, "application/apply-patch+yaml", body).await
    }

    pub async fn delete(&self, path: &str, options: &Value) -> (u16, Value) {
        self.call("DELETE", path, "application/json", options).await
    }

    /// Creates or panics.
    pub async fn make(&self, path: &str, body: &Value) -> Value {
        let (code, value) = self.post(path, body).await;
        assert_eq!(code, 201, "POST {path}: {value}");
        value
    }

    /// Waits until an object is gone.
    pub async fn gone(&self, path: &str) {
        eventually(&format!("{path} goes"), || async { self.get(path).await.0 == 404 }).await;
    }

    /// Opens a watch.
    pub async fn watch(&self, path: &str) -> Lines {
        let response = self.send("GET", path, "", &Value::Null).await;
        assert_eq!(response.status(), 200, "GET {path}");
        Lines { body: response.into_body(), buffer: Vec::new() }
    }
}

/// The events of a watch.
pub struct Lines {
    body: Body,
    buffer: Vec<u8>,
}

impl Lines {
    /// The next event; nothing at the end of the stream.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("a line is JSON"));
            }
            let frame = tokio::time::timeout(Duration::from_secs(10), self.body.frame());
            let frame = frame.await.expect("an event within ten seconds")?.expect("infallible");
            self.buffer.extend_from_slice(&frame.into_data().expect("data"));
        }
    }

    /// The next event as its type and the object's name.
    pub async fn short(&mut self) -> (String, String) {
        let event = self.next().await.expect("an event");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    }
}

pub async fn eventually<F: Future<Output = bool>>(what: &str, mut probe: impl FnMut() -> F) {
    for _ in 0..1000 {
        if probe().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited ten seconds: {what}");
}

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
pub const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

pub fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

pub fn widgets() -> Value {
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
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "string", "jsonPath": ".spec.size"},
                    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                ],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "size": {"type": "string", "enum": ["S", "L"], "description": "How big it is."},
                        "replicas": {"type": "integer", "default": 1},
                        "big": {"type": "integer", "format": "int64"},
                        "parts": {
                            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                            "items": {"type": "object", "required": ["name"], "properties": {
                                "name": {"type": "string"}, "n": {"type": "integer"},
                            }},
                        },
                    }},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    })
}
