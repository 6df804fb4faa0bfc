//! The objects of one CRD on an API server.

use http::{Method, Request};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// A client for the objects of one CRD, in one namespace if they are namespaced. Every write uses strict field
/// validation, which kube's own methods do not support: an unknown field is an error, and is not dropped.
pub struct Resource {
    client: kube::Client,
    path: String,
    /// Whether the CRD has the status subresource.
    pub has_status: bool,
}

impl Resource {
    /// The objects of `crd` in `namespace`.
    pub fn new(client: kube::Client, crd: &CustomResourceDefinition, namespace: &str) -> Self {
        let version =
            crd.spec.versions.iter().find(|version| version.storage).expect("one version is stored");
        let folder = match crd.spec.scope.as_str() {
            "Namespaced" => format!("namespaces/{namespace}/"),
            _ => String::new(),
        };
        let path = format!("/apis/{}/{}/{folder}{}", crd.spec.group, version.name, crd.spec.names.plural);
        let has_status = version.subresources.as_ref().is_some_and(|with| with.status.is_some());
        Self { client, path, has_status }
    }

    /// Checks that the server serves this kind; it does so shortly after the CRD is established.
    pub async fn ensure_served(&self) -> kube::Result<()> {
        let request = Request::get(format!("{}?limit=1", self.path)).body(Vec::new());
        self.client.request_text(request.expect("a path of names")).await.map(drop)
    }

    /// Creates an object.
    pub async fn create(&self, object: &Value) -> kube::Result<Value> {
        self.send(Method::POST, "", "application/json", object).await
    }

    /// Changes an object with a merge patch.
    pub async fn change(&self, name: &str, patch: &Value) -> kube::Result<Value> {
        self.send(Method::PATCH, &format!("/{name}"), "application/merge-patch+json", patch).await
    }

    /// Changes the status of an object with a merge patch.
    pub async fn change_status(&self, name: &str, patch: &Value) -> kube::Result<Value> {
        self.send(Method::PATCH, &format!("/{name}/status"), "application/merge-patch+json", patch).await
    }

    /// Reads an object.
    pub async fn get(&self, name: &str) -> kube::Result<Value> {
        let request = Request::get(format!("{}/{name}", self.path)).body(Vec::new());
        self.client.request(request.expect("a path of names")).await
    }

    async fn send(&self, method: Method, below: &str, content: &str, body: &Value) -> kube::Result<Value> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{below}?fieldValidation=Strict", self.path))
            .header("content-type", content)
            .body(body.to_string().into_bytes());
        self.client.request(request.expect("a path of names")).await
    }
}
