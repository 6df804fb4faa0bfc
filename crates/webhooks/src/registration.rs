//! Maintains the CA of the webhooks in its Secret, a valid serving certificate, and the part of the two configurations that
//! says where the webhooks are: `clientConfig` with the CA bundle.
//!
//! The user installs the configurations, and may change the rest of them. Where there is none, nothing is written: an API
//! server without them does not call webhooks. Nothing is removed when the process ends.

use capstan_controller::authority_secret::AuthoritySecret;
use capstan_controller::error::{Doing as _, Error, Result, chain};
use capstan_net::Serving;
use capstan_pki::serving::Issued;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

use crate::paths::{CONFIGURATION, Phase, Reached, find, path};

/// Name of the Secret with the CA.
pub const SECRET: &str = "capstan-admission";
const COMMON_NAME: &str = "capstan admission";

/// How soon a configuration that a user installs or changes names the webhooks.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

pub(crate) struct Registration {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) reached: Reached,
    pub(crate) hosts: Vec<String>,
    pub(crate) serving: Arc<Serving>,
    /// Whether this is the replica that writes.
    pub(crate) leads: Option<watch::Receiver<bool>>,
}

/// What is shown: a certificate, and by whom it is signed.
struct ServedCertificate {
    bundle: String,
    issued: Issued,
}

impl Registration {
    pub(crate) async fn run(self, stop: impl Future<Output = ()> + Send) {
        let mut stop = std::pin::pin!(stop);
        let (mut served, mut retry) = (None, FIRST_RETRY);
        loop {
            let wait = match self.ensure(&mut served, Timestamp::now()).await {
                Ok(()) => {
                    retry = FIRST_RETRY;
                    LOOK_AGAIN
                }
                Err(error) => {
                    if self.leads() {
                        tracing::warn!(error = %chain(&error), wait = ?retry, "cannot register the webhooks yet");
                    } else {
                        tracing::debug!(error = %chain(&error), "waits for the replica that registers the webhooks");
                    }
                    let wait = retry;
                    retry = retry.saturating_mul(2).min(LONGEST_RETRY);
                    wait
                }
            };
            tokio::select! {
                () = &mut stop => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn leads(&self) -> bool {
        self.leads.as_ref().is_none_or(|leads| *leads.borrow())
    }

    async fn ensure(&self, served: &mut Option<ServedCertificate>, now: Timestamp) -> Result<()> {
        let failed = |error| Error::transient("cannot make the certificate of the webhooks", error);
        let secret = AuthoritySecret { namespace: &self.namespace, name: SECRET, common_name: COMMON_NAME };
        let authority = secret.ensure(&self.client, self.leads(), now).await?;
        let is_good =
            |served: &ServedCertificate| served.bundle == authority.bundle() && !served.issued.is_due(now);
        if !served.as_ref().is_some_and(is_good) {
            let issued = authority.issue(&self.hosts, now).map_err(failed)?;
            self.serving.show(issued.key.clone());
            *served = Some(ServedCertificate { bundle: authority.bundle(), issued });
        }
        if self.leads() {
            for phase in [Phase::Default, Phase::Validate] {
                self.register(phase, &authority.bundle()).await?;
            }
        }
        Ok(())
    }

    /// Writes where the webhooks are into their configuration, if there is one.
    async fn register(&self, phase: Phase, bundle: &str) -> Result<()> {
        let kind = phase.configuration();
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind));
        let doing = |what: &str| format!("cannot {what} {} {CONFIGURATION}", kind.kind);
        let Some(found) = api.get_opt(CONFIGURATION).await.doing(|| doing("read"))? else { return Ok(()) };
        let Some(webhooks) = registered(&found.data["webhooks"], phase, &self.reached, bundle) else {
            return Ok(());
        };
        // On condition that nothing has changed since: a list is replaced whole.
        let patch = json!({
            "metadata": {"resourceVersion": found.metadata.resource_version}, "webhooks": webhooks,
        });
        let patched = api.patch(CONFIGURATION, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.doing(|| doing("write"))?;
        tracing::info!(configuration = kind.kind, "registered the webhooks");
        Ok(())
    }
}

/// The webhooks of a configuration with the right `clientConfig`; nothing if they have it. Webhooks that are not ours stay.
fn registered(webhooks: &Value, phase: Phase, reached: &Reached, bundle: &str) -> Option<Value> {
    let mut changed = webhooks.clone();
    for webhook in changed.as_array_mut().into_iter().flatten() {
        let config = &webhook["clientConfig"];
        let named = config.pointer("/service/path").or_else(|| config.get("url")).and_then(Value::as_str);
        let named = named.and_then(|named| named.rfind('/').map(|slash| &named[slash..]));
        let Some((of, kind)) = named.and_then(find) else { continue };
        if of == phase {
            webhook["clientConfig"] = reached.client_config(&path(phase, kind), Some(bundle));
        }
    }
    (changed != *webhooks).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::configuration;

    #[test]
    fn only_the_place_of_our_webhooks_is_written() {
        let installed = Reached::Service { namespace: "n".to_owned(), name: "s".to_owned(), port: 9443 };
        for reached in [installed.clone(), Reached::Url("https://127.0.0.1:1".to_owned())] {
            let mut webhooks = configuration(Phase::Validate, &installed, None)["webhooks"].take();
            webhooks[0]["timeoutSeconds"] = 3.into();
            let other = json!({"name": "x", "clientConfig": {"url": "https://a/b"}});
            webhooks.as_array_mut().expect("a list").push(other.clone());
            let written = registered(&webhooks, Phase::Validate, &reached, "pem").expect("a change");
            let ours = configuration(Phase::Validate, &reached, Some("pem"))["webhooks"].take();
            assert_eq!(written[0]["timeoutSeconds"], 3);
            assert_eq!(written[1], ours[1]);
            assert_eq!(written.as_array().expect("a list").last(), Some(&other));
            assert_eq!(registered(&written, Phase::Validate, &reached, "pem"), None);
            assert!(registered(&written, Phase::Validate, &reached, "newer").is_some());
            assert_eq!(registered(&written, Phase::Default, &reached, "newer"), None, "other webhooks");
        }
    }
}
