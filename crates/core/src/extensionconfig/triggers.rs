//! What wakes an ExtensionConfig's reconcile.

use capstan_api::runtime::ExtensionConfig;
use capstan_controller::Cache;
use capstan_controller::scope::first_seen;
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Config;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

use super::ExtensionConfigReconciler;
use crate::Core;

/// Runs the controller until `stop` completes.
pub async fn run(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let (cache, scope, client) = (core.caches.of_cluster_scoped(), core.scope.clone(), core.client.clone());
    let reconciler = ExtensionConfigReconciler::new(core);
    let (named, secrets) = (reconciler.named.clone(), client);
    let also = first_seen(reconciler.named.namespaces())
        .map(move |namespace| {
            let secrets: Api<PartialObjectMeta<Secret>> = Api::namespaced(secrets.clone(), &namespace);
            Cache::watching(secrets, Config::default(), "Secret")
                .changed(kube::ResourceExt::resource_version)
                .boxed()
        })
        .flatten_unordered(None)
        .flat_map(move |secret| futures::stream::iter(named.by(&secret)));
    capstan_controller::run::run(reconciler, cache, scope, also, stop).await;
}

/// Which ExtensionConfig takes its certificates from which Secret, as far as they have been reconciled: there are many
/// Secrets, and hardly any is one of these.
#[derive(Clone, Debug)]
pub(super) struct Named {
    secrets: Arc<Mutex<BTreeMap<String, (String, String)>>>,
    /// Namespaces that were named: Secrets are watched there and nowhere else.
    namespaces: watch::Sender<BTreeSet<String>>,
}

impl Named {
    pub(super) fn new() -> Self {
        Self { secrets: Arc::default(), namespaces: watch::Sender::default() }
    }

    pub(super) fn note(&self, config: &str, secret: Option<&(String, String)>) {
        if let Some((namespace, _)) = secret {
            self.namespaces.send_if_modified(|known| known.insert(namespace.clone()));
        }
        let mut known = self.lock();
        match secret {
            Some(secret) => _ = known.insert(config.to_owned(), secret.clone()),
            None => _ = known.remove(config),
        }
    }

    /// Every namespace that is named, as often as there is a new one.
    fn namespaces(&self) -> impl Stream<Item = String> + Send + use<> {
        let known = self.namespaces.subscribe();
        futures::stream::unfold((known, true), |(mut known, is_first)| async move {
            if !is_first {
                known.changed().await.ok()?;
            }
            let all: Vec<String> = known.borrow_and_update().iter().cloned().collect();
            Some((futures::stream::iter(all), (known, false)))
        })
        .flatten()
    }

    fn by(&self, secret: &PartialObjectMeta<Secret>) -> Vec<ObjectRef<ExtensionConfig>> {
        let key = (secret.namespace().unwrap_or_default(), secret.name_any());
        let known = self.lock();
        known.iter().filter(|(_, named)| **named == key).map(|(config, _)| ObjectRef::new(config)).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, (String, String)>> {
        // What is inside is renewed by every reconcile: a panic elsewhere has not broken it.
        self.secrets.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
