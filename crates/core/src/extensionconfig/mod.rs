//! ExtensionConfig: asks a runtime extension what it serves.
//!
//! Reads: the ExtensionConfig, the Secret it names, what the extension answers. Writes: of the ExtensionConfig the
//! certificates by which the extension is known, if they stand in a Secret, and status.

mod triggers;

use capstan_api::conditions::{NewCondition, set, types};
use capstan_api::runtime::ExtensionConfig;
use capstan_api::runtime::annotations::INJECT_CA_FROM_SECRET;
use capstan_api::runtime::conditions::{DISCOVERED, NOT_DISCOVERED};
use capstan_controller::error::Doing as _;
use capstan_controller::patch::Patcher;
use capstan_controller::{Error, Next, Reconciler, Result, pause, secrets};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

use crate::Core;
use crate::runtime::CallError;

pub use triggers::run;

/// Key of the Secret under which the certificates stand.
const CA: &str = "ca.crt";

/// An extension may serve more, or less, after an upgrade of which nobody tells.
const ASK_AGAIN: Duration = Duration::from_secs(600);

/// Reconciles ExtensionConfigs.
pub struct ExtensionConfigReconciler {
    core: Core,
    named: triggers::Named,
}

impl ExtensionConfigReconciler {
    /// A reconciler on these clients.
    pub fn new(core: Core) -> Self {
        Self { core, named: triggers::Named::new() }
    }

    /// The ExtensionConfig with the certificates from the Secret that it names.
    async fn with_certificates(
        &self,
        api: &Api<ExtensionConfig>,
        config: ExtensionConfig,
    ) -> Result<ExtensionConfig> {
        let name = config.name_any();
        let named = secret_of(&config)?;
        self.named.note(&name, named.as_ref());
        let Some((namespace, secret)) = named else { return Ok(config) };
        let secrets: Api<Secret> = self.core.api(&namespace);
        let doing = || format!("cannot read Secret {namespace}/{secret} for ExtensionConfig {name}");
        let found = secrets.get(&secret).await.doing(doing)?;
        let bundle = secrets::get(&found, CA)
            .ok_or_else(|| Error::transient(doing(), format!("it does not have the key {CA}")))?;
        let bundle = ByteString(bundle.to_vec());
        if config.spec.client_config.ca_bundle.as_ref() == Some(&bundle) {
            return Ok(config);
        }
        let patch = json!({"spec": {"clientConfig": {"caBundle": bundle}}});
        let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.doing(|| format!("cannot write the certificates of ExtensionConfig {name}"))
    }
}

impl Reconciler for ExtensionConfigReconciler {
    type Object = ExtensionConfig;

    fn name(&self) -> &'static str {
        "extensionconfig"
    }

    async fn reconcile(&self, object: Arc<ExtensionConfig>) -> Result<Next> {
        let (api, now): (Api<ExtensionConfig>, _) = (Api::all(self.core.client.clone()), self.core.now());
        if object.metadata.deletion_timestamp.is_some()
            || !pause::allows(&api, object.as_ref(), None, now).await?
        {
            return Ok(Next::Changed);
        }
        let config = self.with_certificates(&api, object.as_ref().clone()).await?;
        let discovered = self.core.extensions.discover(&config).await;
        let mut told = config.clone();
        set(&mut told, condition(discovered.as_ref().err()), now);
        pause::lifted(&mut told, now);
        if let Ok(handlers) = &discovered {
            told.status.get_or_insert_default().handlers.clone_from(handlers);
        }
        Patcher::new(api, &config).finish(&told, &[types::PAUSED, DISCOVERED]).await?;
        match discovered {
            Ok(_) => Ok(Next::After(ASK_AGAIN)),
            Err(problem) => {
                Err(Error::transient(format!("cannot discover extension {}", config.name_any()), problem))
            }
        }
    }
}

fn condition(problem: Option<&CallError>) -> NewCondition {
    match problem {
        None => NewCondition::new(DISCOVERED, true, DISCOVERED),
        Some(problem) => NewCondition::new(DISCOVERED, false, NOT_DISCOVERED)
            .message(format!("Error in discovery: {problem}")),
    }
}

/// Namespace and name of the Secret with the certificates, if the ExtensionConfig names one.
fn secret_of(config: &ExtensionConfig) -> Result<Option<(String, String)>> {
    let Some(named) = config.annotations().get(INJECT_CA_FROM_SECRET) else { return Ok(None) };
    match named.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok(Some((namespace.to_owned(), name.to_owned())))
        }
        _ => {
            let field = format!("ExtensionConfig {} annotation {INJECT_CA_FROM_SECRET}", config.name_any());
            Err(Error::user(field, "must be a namespace and a name with a slash between"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::conditions::ConditionStatus;

    #[test]
    fn a_secret_is_named_with_its_namespace() {
        let config = |named: Option<&str>| -> ExtensionConfig {
            let mut object = json!({
                "apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
                "metadata": {"name": "e", "annotations": {}}, "spec": {"clientConfig": {"url": "https://a"}},
            });
            if let Some(named) = named {
                object["metadata"]["annotations"][INJECT_CA_FROM_SECRET] = json!(named);
            }
            serde_json::from_value(object).expect("a test value")
        };
        assert_eq!(secret_of(&config(None)).expect("valid"), None);
        let named = secret_of(&config(Some("n/s"))).expect("valid");
        assert_eq!(named, Some(("n".to_owned(), "s".to_owned())));
        for wrong in ["", "s", "/s", "n/"] {
            assert!(secret_of(&config(Some(wrong))).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn why_it_was_not_discovered_is_told() {
        assert_eq!(condition(None).status, ConditionStatus::True);
        let told = condition(Some(&CallError::Unreachable("cannot connect: refused".to_owned())));
        assert_eq!((told.status, told.reason.as_str()), (ConditionStatus::False, "NotDiscovered"));
        assert_eq!(told.message, "Error in discovery: cannot connect: refused");
    }
}
