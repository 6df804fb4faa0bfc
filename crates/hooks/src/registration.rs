//! Maintains the CA in its Secret, a valid serving certificate, and the ExtensionConfig by which core finds the server.
//!
//! Everything is read before it is written, repeatedly, so changes by another process or user are found. Nothing is
//! removed when the process ends: without a response core changes nothing, while without an ExtensionConfig it would
//! replace machines.

use capstan_api::meta::labels::WATCH_FILTER;
use capstan_api::runtime::ExtensionConfig;
use capstan_api::runtime::hooks::EXTENSION;
use capstan_controller::Cache;
use capstan_controller::authority_secret::AuthoritySecret;
use capstan_controller::error::{Doing as _, Error, Result, chain};
use capstan_pki::serving::Issued;
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

use crate::server::Serving;

/// Name of the Secret with the CA.
pub const SECRET: &str = "capstan-hooks";

/// Common name of the CA.
const COMMON_NAME: &str = "capstan hooks";

/// Owns the fields of the ExtensionConfig.
const FIELD_MANAGER: &str = "capstan-hooks";

const LOOK_AGAIN: Duration = Duration::from_secs(300);
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Where hooks were served before, if a free port of this address is asked for. An answer that does not come is none.
pub(crate) async fn last_address(client: &Client, listen: SocketAddr) -> Option<SocketAddr> {
    if listen.port() != 0 {
        return None;
    }
    let registered = Api::<ExtensionConfig>::all(client.clone()).get_opt(EXTENSION).await.ok()??;
    at_address(registered.spec.client_config.url.as_deref()?, listen)
}

/// The address in a URL that we have registered, if it differs from `listen` by its port only.
fn at_address(url: &str, listen: SocketAddr) -> Option<SocketAddr> {
    let address: SocketAddr = url.strip_prefix("https://")?.parse().ok()?;
    (address.ip() == listen.ip()).then_some(address)
}

pub(crate) struct Registration {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) url: String,
    /// Names and addresses that the certificate must have.
    pub(crate) hosts: Vec<String>,
    pub(crate) serving: Arc<Serving>,
    /// Says whether core can find the server.
    pub(crate) known: watch::Sender<bool>,
    /// Whether this is the replica that writes.
    pub(crate) leads: Option<watch::Receiver<bool>>,
    /// Marks the registration as meant for some core, if there are several.
    pub(crate) filter: Option<String>,
}

/// What is shown: a certificate, and by whom it is signed.
struct ServedCertificate {
    bundle: String,
    issued: Issued,
}

impl Registration {
    pub(crate) async fn run(self, stop: impl Future<Output = ()> + Send) {
        let mut stop = std::pin::pin!(stop);
        let mine = watcher::Config::default().fields(&format!("metadata.name={EXTENSION}"));
        let api: Api<ExtensionConfig> = Api::all(self.client.clone());
        let configs = Cache::watching(api, mine, "ExtensionConfig");
        let mut changes = configs.changed(|config| config.spec.clone()).boxed();
        let (mut served, mut retry) = (None, FIRST_RETRY);
        let mut leads = self.leads.clone();
        loop {
            let wait = match self.ensure(&mut served, Timestamp::now()).await {
                Ok(()) => {
                    retry = FIRST_RETRY;
                    self.known.send_replace(true);
                    LOOK_AGAIN
                }
                Err(error) => {
                    if self.leads() {
                        tracing::warn!(error = %chain(&error), wait = ?retry, "cannot register the hooks yet");
                    } else {
                        tracing::debug!(error = %chain(&error), "waits for who registers the hooks");
                    }
                    let wait = retry;
                    retry = retry.saturating_mul(2).min(LONGEST_RETRY);
                    wait
                }
            };
            tokio::select! {
                () = &mut stop => return,
                () = tokio::time::sleep(wait) => {}
                Some(_) = changes.next() => {}
                () = turned(&mut leads) => retry = FIRST_RETRY,
            }
        }
    }

    async fn ensure(&self, served: &mut Option<ServedCertificate>, now: Timestamp) -> Result<()> {
        let failed = |error| Error::transient("cannot make the certificate of the hooks", error);
        let secret = AuthoritySecret { namespace: &self.namespace, name: SECRET, common_name: COMMON_NAME };
        let authority = secret.ensure(&self.client, self.leads(), now).await?;
        let is_good =
            |served: &ServedCertificate| served.bundle == authority.bundle() && !served.issued.is_due(now);
        if !served.as_ref().is_some_and(is_good) {
            let issued = authority.issue(&self.hosts, now).map_err(failed)?;
            self.serving.show(issued.key.clone());
            *served = Some(ServedCertificate { bundle: authority.bundle(), issued });
        }
        self.register(&authority.bundle()).await
    }

    /// Whether this is the replica that writes.
    fn leads(&self) -> bool {
        self.leads.as_ref().is_none_or(|leads| *leads.borrow())
    }

    /// One replica writes; the others wait for what it has written.
    fn may_write(&self, doing: impl FnOnce() -> String) -> Result<()> {
        match self.leads() {
            true => Ok(()),
            false => Err(Error::transient(doing(), "that is for the replica that leads")),
        }
    }

    async fn register(&self, bundle: &str) -> Result<()> {
        let api: Api<ExtensionConfig> = Api::all(self.client.clone());
        let doing = |what: &str| format!("cannot {what} ExtensionConfig {EXTENSION}");
        let read = api.get_opt(EXTENSION).await.doing(|| doing("read"))?;
        if read.is_some_and(|config| is_registered(&config, &self.url, bundle, self.filter.as_deref())) {
            return Ok(());
        }
        self.may_write(|| doing("write"))?;
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let wanted = Patch::Apply(wanted(&self.url, bundle, self.filter.as_deref()));
        api.patch(EXTENSION, &parameters, &wanted).await.doing(|| doing("write"))?;
        tracing::info!(url = self.url, "registered the hooks");
        Ok(())
    }
}

/// Waits until another replica leads, or this one does.
async fn turned(leads: &mut Option<watch::Receiver<bool>>) {
    let has_turned = match leads {
        Some(leads) => leads.changed().await.is_ok(),
        None => false,
    };
    if !has_turned {
        // Nobody is left who could tell.
        std::future::pending::<()>().await;
    }
}

/// Whether core finds the server by what the ExtensionConfig says. What else it says is the user's.
fn is_registered(config: &ExtensionConfig, url: &str, bundle: &str, filter: Option<&str>) -> bool {
    let client = &config.spec.client_config;
    client.url.as_deref() == Some(url)
        && client.ca_bundle.as_ref().is_some_and(|registered| registered.0 == bundle.as_bytes())
        && config.spec.namespace_selector.is_some()
        && filter.is_none_or(|filter| config.labels().get(WATCH_FILTER).is_some_and(|value| value == filter))
}

fn wanted(url: &str, bundle: &str, filter: Option<&str>) -> Value {
    let mut metadata = json!({"name": EXTENSION});
    if let Some(filter) = filter {
        metadata["labels"] = json!({WATCH_FILTER: filter});
    }
    json!({
        "apiVersion": "runtime.cluster.x-k8s.io/v1beta2",
        "kind": "ExtensionConfig",
        "metadata": metadata,
        "spec": {
            "clientConfig": {"url": url, "caBundle": ByteString(bundle.as_bytes().to_vec())},
            // Not the same as none: upstream takes that for no namespace at all.
            "namespaceSelector": BTreeMap::<String, String>::new(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_port_of_the_last_address_is_taken_over() {
        let listen: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let last = |url: &str| at_address(url, listen).map(|address| address.port());
        assert_eq!(last("https://127.0.0.1:4711"), Some(4711));
        for other in ["https://10.0.0.1:4711", "https://hooks.svc:443", "http://127.0.0.1:1", ""] {
            assert_eq!(last(other), None, "{other}");
        }
    }

    #[test]
    fn what_a_user_adds_to_the_registration_stays() {
        let config = |change: &Value| -> ExtensionConfig {
            let mut value = wanted("https://a", "pem", Some("blue"));
            json_merge(&mut value, change);
            serde_json::from_value(value).expect("an ExtensionConfig")
        };
        for (change, registered) in [
            (json!({}), true),
            (json!({"spec": {"namespaceSelector": {"matchLabels": {"team": "a"}}}}), true),
            (json!({"spec": {"settings": {"x": "y"}}}), true),
            (json!({"spec": {"clientConfig": {"url": "https://b"}}}), false),
            (json!({"spec": {"clientConfig": {"caBundle": "eA=="}}}), false),
            (json!({"spec": {"namespaceSelector": null}}), false),
        ] {
            let config = config(&change);
            assert_eq!(is_registered(&config, "https://a", "pem", Some("blue")), registered, "{change}");
            assert_eq!(is_registered(&config, "https://a", "pem", None), registered, "{change}");
        }
        assert!(!is_registered(&config(&json!({})), "https://a", "pem", Some("red")));
    }

    fn json_merge(value: &mut Value, change: &Value) {
        match (value, change) {
            (Value::Object(value), Value::Object(change)) => {
                for (key, change) in change {
                    json_merge(value.entry(key.clone()).or_insert(Value::Null), change);
                }
            }
            (value, change) => *value = change.clone(),
        }
    }
}
