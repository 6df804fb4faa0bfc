//! What wakes an ExtensionConfig's reconcile.

use capstan_api::runtime::ExtensionConfig;
use capstan_controller::watch::changed;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Config;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::ExtensionConfigReconciler;
use crate::Core;

/// Runs the controller until `stop` is done.
pub async fn run(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let secrets = core.all::<PartialObjectMeta<Secret>>();
    let api = core.all();
    let reconciler = ExtensionConfigReconciler::new(core);
    let named = reconciler.named.clone();
    let also = changed(secrets, Config::default(), kube::ResourceExt::resource_version)
        .flat_map(move |secret| futures::stream::iter(named.by(&secret)));
    capstan_controller::run::run(reconciler, api, also, stop).await;
}

/// Which ExtensionConfig takes its certificates from which Secret, as far as they have been reconciled: there are many
/// Secrets, and hardly any is one of these.
#[derive(Clone, Debug, Default)]
pub(super) struct Named(Arc<Mutex<BTreeMap<String, (String, String)>>>);

impl Named {
    pub(super) fn note(&self, config: &str, secret: Option<&(String, String)>) {
        let mut known = self.lock();
        match secret {
            Some(secret) => _ = known.insert(config.to_owned(), secret.clone()),
            None => _ = known.remove(config),
        }
    }

    fn by(&self, secret: &PartialObjectMeta<Secret>) -> Vec<ObjectRef<ExtensionConfig>> {
        let key = (secret.namespace().unwrap_or_default(), secret.name_any());
        let known = self.lock();
        known.iter().filter(|(_, named)| **named == key).map(|(config, _)| ObjectRef::new(config)).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, (String, String)>> {
        // What is inside is renewed by every reconcile: a panic elsewhere has not broken it.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
