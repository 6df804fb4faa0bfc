//! Plain requests to an API server with any credential, for tests of what a client library would hide.

use std::path::Path;

use anyhow::{Context, Result};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

/// URL and CA of an API server, and its administrator, from a kubeconfig.
#[derive(Clone, Debug)]
pub struct Place {
    cluster: Value,
    admin: Value,
}

/// The credential of a client.
pub enum Credential<'a> {
    /// No credential.
    None,
    /// A bearer token.
    Token(&'a str),
    /// A certificate and its key, both PEM.
    Certificate(&'a str, &'a str),
}

impl Place {
    /// Reads a kubeconfig with one cluster and one user.
    pub fn of(kubeconfig: &Path) -> Result<Self> {
        let config = Kubeconfig::read_from(kubeconfig).context("cannot read the kubeconfig")?;
        // Through JSON: what it holds is handed on, not looked at.
        let read = std::fs::read_to_string(kubeconfig).context("cannot read the kubeconfig")?;
        let plain: Value = serde_saphyr::from_str(&read).context("the kubeconfig is no YAML")?;
        anyhow::ensure!(config.clusters.len() == 1 && config.auth_infos.len() == 1, "not one of each");
        Ok(Self {
            cluster: plain["clusters"][0]["cluster"].clone(),
            admin: plain["users"][0]["user"].clone(),
        })
    }

    /// A server with this URL and this CA bundle, in base64. It has no administrator.
    pub fn at(url: &str, ca: &str) -> Self {
        let cluster = json!({"server": url, "certificate-authority-data": ca});
        Self { cluster, admin: json!({}) }
    }

    /// A client of the administrator.
    pub async fn admin(&self) -> Result<Caller> {
        self.caller(self.admin.clone()).await
    }

    /// A client with this credential.
    pub async fn with(&self, credential: Credential<'_>) -> Result<Caller> {
        self.caller(user(&credential)).await
    }

    /// A kubeconfig with this credential.
    pub fn kubeconfig(&self, credential: &Credential<'_>) -> String {
        self.config(&user(credential)).to_string()
    }

    fn config(&self, user: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": self.cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        })
    }

    async fn caller(&self, user: Value) -> Result<Caller> {
        let config = Kubeconfig::from_yaml(&self.config(&user).to_string())?;
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        Ok(Caller(kube::Client::try_from(config)?))
    }
}

fn user(credential: &Credential<'_>) -> Value {
    let encoded = |pem: &str| {
        serde_json::to_value(k8s_openapi::ByteString(pem.as_bytes().to_vec())).unwrap_or_default()
    };
    match credential {
        Credential::None => json!({}),
        Credential::Token(token) => json!({"token": token}),
        Credential::Certificate(certificate, key) => {
            json!({"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)})
        }
    }
}

/// A client that sends requests with one credential.
#[derive(Clone)]
pub struct Caller(kube::Client);

/// A response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub code: u16,
    /// The body, if it is JSON; for a watch, its first line.
    pub body: Value,
    /// Warnings of the server.
    pub warnings: Vec<String>,
}

impl Caller {
    /// Sends a request. The body is empty for null, a merge patch for PATCH, and JSON otherwise.
    pub async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Answer> {
        self.ask_as(method, path, body, &[]).await
    }

    /// Like [`Caller::ask`], with additional headers.
    pub async fn ask_as(
        &self,
        method: &str,
        path: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> Result<Answer> {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.send(method, path, media, bytes, headers).await
    }

    /// Sends a body of any media type, and returns the body of the response as it is.
    pub async fn fetch(
        &self,
        method: &str,
        path: &str,
        media: &str,
        bytes: Vec<u8>,
        headers: &[(&str, &str)],
    ) -> Result<(http::response::Parts, Vec<u8>)> {
        let mut request = http::Request::builder().method(method).uri(path).header("content-type", media);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.0.send(request.body(Body::from(bytes))?).await?;
        let (head, body) = response.into_parts();
        Ok((head, body.collect_bytes().await?.to_vec()))
    }

    /// Sends a body of any media type.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        media: &str,
        bytes: Vec<u8>,
        headers: &[(&str, &str)],
    ) -> Result<Answer> {
        let (head, bytes) = self.fetch(method, path, media, bytes, headers).await?;
        let code = head.status.as_u16();
        let warnings = head.headers.get_all("warning").iter();
        let warnings = warnings.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
        let body = serde_json::from_slice(&bytes).ok().or_else(|| {
            let line = bytes.split(|byte| *byte == b'\n').next()?;
            serde_json::from_slice(line).ok()
        });
        Ok(Answer { code, body: body.unwrap_or_default(), warnings })
    }
}
