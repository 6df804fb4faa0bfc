//! The client of webhooks: their addresses, connections and responses. [`conversion`] converts objects from one version to
//! another. What a webhook is, `registry::webhook` says.
//!
//! This server has no cluster network: a `service` is looked up in the map that the server was opened with, and is
//! called under its name in the cluster, so that its certificate is valid.

mod address;
pub(crate) mod conversion;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs, pki_types::ServerName};
use serde_json::Value;

use crate::registry::webhook::Target;
use address::locate;

/// No answer is longer: a list of objects at most, and each of those fits into a request.
const ANSWER_LIMIT: usize = 64 << 20;
/// Connections are kept for as many different authorities and names; then all begin anew.
const CLIENTS: usize = 64;

type Connection = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Why a webhook gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(
        "the service {0:?} has no address here: there is no cluster network, so open the server with a URL \
         for it (capstan up --webhook-service {0}=https://...)"
    )]
    NoAddress(String),
    #[error("the URL {0:?} cannot be called")]
    Url(String),
    #[error("unable to load root certificates: {0}")]
    Authority(String),
    #[error("failed to call {url}: {reason}")]
    Failed { url: String, reason: String },
    #[error("failed to call {url}: context deadline exceeded after {} s", .after.as_secs())]
    Late { url: String, after: Duration },
    #[error("{url} answered {code}")]
    Refused { url: String, code: StatusCode },
    #[error("{url} answered something that is not JSON: {reason}")]
    NotJson { url: String, reason: String },
}

/// Calls webhooks.
pub(crate) struct Webhooks {
    /// From `namespace/name` to the URL it is reached at.
    services: BTreeMap<String, String>,
    clients: Mutex<HashMap<Trust, Arc<Connection>>>,
}

/// Whom a connection is for: what it depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Trust {
    /// PEM; empty means whom the operating system trusts.
    authority: Vec<u8>,
    /// The name the certificate must have, if it is not the URL's.
    server_name: Option<String>,
}

impl Webhooks {
    pub(crate) fn new(services: BTreeMap<String, String>) -> Self {
        Self { services, clients: Mutex::default() }
    }

    /// Posts a review and gives the answer.
    pub(crate) async fn call(
        &self,
        target: &Target,
        query: &str,
        timeout: Duration,
        review: &Value,
    ) -> Result<Value, CallError> {
        let (url, server_name) = locate(target, &self.services)?;
        let client = self.client(Trust { authority: target.authority.clone(), server_name })?;
        let asked = format!("{url}{query}");
        let request = Request::post(&asked)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, "kube-apiserver-admission")
            .body(Full::new(Bytes::from(review.to_string())))
            .map_err(|_| CallError::Url(url.clone()))?;
        // Apart from the rest, so that writes that call nobody stay small.
        let answer = Box::pin(async {
            let failed = |reason| CallError::Failed { url: url.clone(), reason };
            let response = client.request(request).await.map_err(|error| {
                // hyper keeps the cause of a failed handshake behind two others.
                failed(capstan_text::chain(&error))
            })?;
            let code = response.status();
            let body = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
            let body = body.map_err(|error| failed(error.to_string()))?.to_bytes();
            if code != StatusCode::OK {
                return Err(CallError::Refused { url: url.clone(), code });
            }
            serde_json::from_slice(&body)
                .map_err(|error| CallError::NotJson { url: url.clone(), reason: error.to_string() })
        });
        let late = CallError::Late { url: url.clone(), after: timeout };
        tokio::time::timeout(timeout, answer).await.unwrap_or(Err(late))
    }

    fn client(&self, trust: Trust) -> Result<Arc<Connection>, CallError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&trust) {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(connection(&trust).map_err(CallError::Authority)?);
        if clients.len() >= CLIENTS {
            clients.clear();
        }
        clients.insert(trust, Arc::clone(&client));
        Ok(client)
    }
}

fn connection(trust: &Trust) -> Result<Connection, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(&trust.authority)?)
        .with_no_client_auth();
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(config).https_only();
    if let Some(name) = &trust.server_name {
        let name = ServerName::try_from(name.clone()).map_err(|error| error.to_string())?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let connector = builder.enable_http1().build();
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}

/// Whom to trust.
fn roots(authority: &[u8]) -> Result<RootCertStore, String> {
    if authority.is_empty() {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    }
    let roots = capstan_pki::roots(authority).map_err(|error| error.to_string())?;
    if roots.is_empty() { Err("unable to parse bytes as PEM block".to_owned()) } else { Ok(roots) }
}
