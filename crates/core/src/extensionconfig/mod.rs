//! ExtensionConfig: discovers what a runtime extension serves.
//!
//! Reads: the ExtensionConfig, the Secret that it names, the answer of the extension.
//! Writes: `spec.clientConfig.caBundle` if the CA bundle is in a Secret, and the status of the ExtensionConfig.
//! Phases: read the Secret, write the CA bundle, ask the extension, write the status.

mod act;
mod decide;
mod observe;
mod status;
mod triggers;

use capstan_api::runtime::ExtensionConfig;
use capstan_controller::patch::Patcher;
use capstan_controller::{Error, Next, Reconciler, Result, pause};
use kube::ResourceExt as _;
use kube::api::Api;
use std::sync::Arc;
use std::time::Duration;

use crate::Core;

pub use triggers::run;

/// An upgraded extension may serve other hooks, and sends no event.
const ASK_AGAIN: Duration = Duration::from_secs(600);

/// Reconciles ExtensionConfigs.
pub struct ExtensionConfigReconciler {
    core: Core,
    named: triggers::Named,
}

impl ExtensionConfigReconciler {
    /// A reconciler with these clients.
    pub fn new(core: Core) -> Self {
        Self { core, named: triggers::Named::new() }
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
        let named = decide::secret_of(&object)?;
        self.named.note(&object.name_any(), named.as_ref());
        let bundle = observe::ca_bundle(&self.core, &object, named.as_ref()).await?;
        let config = act::write_ca_bundle(&api, object.as_ref().clone(), bundle).await?;
        let discovered = self.core.extensions.discover(&config).await;
        let mut updated = config.clone();
        status::update(&mut updated, &discovered, now);
        Patcher::new(api, &config).finish(&updated, &status::OWNED).await?;
        match discovered {
            Ok(_) => Ok(Next::After(ASK_AGAIN)),
            Err(problem) => {
                Err(Error::transient(format!("cannot discover extension {}", config.name_any()), problem))
            }
        }
    }
}
