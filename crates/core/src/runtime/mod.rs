//! Runtime extensions: finds the extensions that serve a hook, and calls them.
//!
//! An extension is called in the same way even if it runs in this process: over HTTPS, at the address and with the
//! certificates in its ExtensionConfig.

mod address;
mod call;
pub(crate) mod discovery;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod patches;
mod registry;
pub(crate) mod response_cache;

use capstan_api::runtime::hooks::{Body, Discovery, DiscoveryRequest, EXTENSION, Hook};
use capstan_api::runtime::{ClientConfig, ExtensionConfig};
use capstan_controller::error::Doing as _;
use capstan_controller::{Caches, Error, Result};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use call::{Caller, Trust};

pub use call::CallError;
pub use registry::Handler;

/// How long an extension may take to say what it serves.
const DISCOVERY: Duration = Duration::from_secs(10);

/// The runtime extensions of a management cluster. Cheap to clone.
#[derive(Clone)]
pub struct Extensions {
    caches: Caches,
    identity: Option<Arc<Identity>>,
    local: Option<Arc<LocalIdentity>>,
    token: Option<Arc<PathBuf>>,
}

/// Client certificate and key for the extension that runs in the same process, in PEM.
#[derive(Clone)]
pub struct LocalIdentity {
    /// URL of the extension.
    pub url: String,
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// Files with the client certificate and key of core for calls of extensions, in PEM. They are read at every call, so
/// that they can be renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, with its chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Extensions {
    /// The extensions that are registered in the management cluster of these caches.
    pub fn new(caches: Caches) -> Self {
        Self { caches, identity: None, local: None, token: None }
    }

    /// Sets the caches.
    pub(crate) fn reading(self, caches: Caches) -> Self {
        Self { caches, ..self }
    }

    /// Sets the client certificate, for extensions that authenticate callers.
    pub fn with_identity(self, identity: Identity) -> Self {
        Self { identity: Some(Arc::new(identity)), ..self }
    }

    /// Sets the client certificate for the extension in the same process, which accepts no other.
    pub fn with_local_identity(self, local: LocalIdentity) -> Self {
        Self { local: Some(Arc::new(local)), ..self }
    }

    /// Sets the file with the bearer token for Capstan's own extension. It is read at every call, so that it can be renewed.
    /// No other extension gets it.
    pub fn with_token_file(self, token: PathBuf) -> Self {
        Self { token: Some(Arc::new(token)), ..self }
    }

    /// The handler of the hook `H` for objects in a namespace, if there is one. The ExtensionConfigs are read from the
    /// cache; from the API server, before they are in the cache and where their CRD is not installed.
    ///
    /// # Errors
    /// If there are several handlers, because their responses might contradict each other; if an extension is not
    /// discovered yet, because it might serve the hook; and if the ExtensionConfigs cannot be read.
    pub async fn serving<H: Hook>(&self, namespace: &str) -> Result<Option<Handler>> {
        match self.caches.of_cluster_scoped::<ExtensionConfig>().all_now() {
            Some(configs) => self.one::<H>(namespace, &configs).await,
            None => self.serving_now::<H>(namespace).await,
        }
    }

    /// The same by a live read: before Machines are replaced because no extension serves the hook.
    ///
    /// # Errors
    /// As [`Extensions::serving`].
    pub async fn serving_now<H: Hook>(&self, namespace: &str) -> Result<Option<Handler>> {
        let api: Api<ExtensionConfig> = Api::all(self.caches.client().clone());
        let configs = match api.list(&ListParams::default()).await {
            // The kind is not installed, so no extension is registered.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            listed => listed.doing(doing::<H>)?.items,
        };
        let configs: Vec<_> = configs.into_iter().map(Arc::new).collect();
        self.one::<H>(namespace, &configs).await
    }

    async fn one<H: Hook>(
        &self,
        namespace: &str,
        configs: &[Arc<ExtensionConfig>],
    ) -> Result<Option<Handler>> {
        let labels = match configs.iter().any(|config| registry::selects_by_label(config)) {
            true => self.labels(namespace).await?,
            false => BTreeMap::new(),
        };
        let mut handlers = registry::serving(configs, H::NAME, &labels)
            .map_err(|unknown| Error::transient(doing::<H>(), unknown))?;
        match handlers.len() {
            0 => Ok(None),
            1 => Ok(handlers.pop()),
            _ => {
                let names: Vec<&str> = handlers.iter().map(|handler| handler.name.as_str()).collect();
                let problem = format!("found several ({}): only one is supported", names.join(", "));
                Err(Error::transient(doing::<H>(), problem))
            }
        }
    }

    async fn labels(&self, namespace: &str) -> Result<BTreeMap<String, String>> {
        let api: Api<Namespace> = Api::all(self.caches.client().clone());
        let found = api.get(namespace).await.doing(|| format!("cannot read Namespace {namespace}"))?;
        Ok(found.labels().clone())
    }

    /// Calls a handler of the hook `H`. Returns `None` if the handler cannot be called and its failure policy is
    /// `Ignore`.
    ///
    /// # Errors
    /// If it cannot be called, or responds with a failure.
    pub async fn call<H: Hook>(
        &self,
        handler: &Handler,
        request: H::Request,
    ) -> std::result::Result<Option<H::Response>, CallError>
    where
        H::Request: Body + Serialize,
        H::Response: Body + DeserializeOwned,
    {
        let target = address::of(&handler.client_config, H::NAME, Some(handler.own_name()))?;
        let trust = self.trust(&handler.extension, &handler.client_config);
        let called = call::call::<H>(&target, &trust, &handler.settings, request, handler.timeout);
        // With all of TLS in it, it is too large to be a part of every reconcile.
        let called = Box::pin(called).await;
        match called {
            Err(error @ CallError::Unreachable(_)) if handler.is_optional => {
                tracing::warn!(handler = %handler.name, %error, "going on without an answer");
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }

    /// How the extension is authenticated that the ExtensionConfig `name` registers, and how we are.
    fn trust<'a>(&'a self, name: &str, config: &'a ClientConfig) -> Trust<'a> {
        let own = self.local.as_deref().filter(|own| config.url.as_ref() == Some(&own.url));
        let identity = match (own, self.identity.as_deref()) {
            (Some(own), _) => Some(Caller::Local(own)),
            (None, files) => files.map(Caller::Files),
        };
        let token = self.token.as_ref().filter(|_| name == EXTENSION).map(|path| path.as_path());
        Trust { ca: config.ca_bundle.as_ref(), identity, token }
    }

    /// Calls the discovery hook of an extension.
    ///
    /// # Errors
    /// If it does not respond, or the response is malformed.
    pub async fn discover(
        &self,
        config: &ExtensionConfig,
    ) -> std::result::Result<Vec<capstan_api::runtime::ExtensionHandler>, CallError> {
        let client = &config.spec.client_config;
        let target = address::of(client, Discovery::NAME, None)?;
        let nothing = BTreeMap::new();
        let request = DiscoveryRequest {};
        let name = config.name_any();
        let trust = self.trust(&name, client);
        let answer = Box::pin(call::call::<Discovery>(&target, &trust, &nothing, request, DISCOVERY)).await?;
        discovery::checked(answer.handlers, &config.name_any()).map_err(CallError::Malformed)
    }
}

fn doing<H: Hook>() -> String {
    format!("cannot find out who serves {}", H::NAME)
}
