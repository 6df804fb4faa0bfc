//! Which objects a manager reconciles: those of one namespace or of all, with a certain label or with any.
//!
//! Several managers may share a plane, each with a scope of its own. Objects outside of it are never reconciled; they
//! may still be read, and may wake those inside.

use capstan_api::core::Cluster;
use capstan_api::meta::labels::WATCH_FILTER;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, ListParams};
use kube::core::ApiResource;
use kube::{Client, Resource, ResourceExt};
use std::collections::HashSet;
use std::sync::Arc;

use crate::cache::{Cached, Caches};

/// The objects that a manager is responsible for: all by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    namespace: Option<String>,
    filter: Option<String>,
}

impl Scope {
    /// Objects of this namespace with this value of the label `cluster.x-k8s.io/watch-filter`. `None` is no
    /// restriction.
    pub fn new(namespace: Option<String>, filter: Option<String>) -> Self {
        let said = |word: Option<String>| word.filter(|word| !word.is_empty());
        Self { namespace: said(namespace), filter: said(filter) }
    }

    /// The required value of the watch filter label.
    pub fn filter(&self) -> Option<&str> {
        self.filter.as_deref()
    }

    /// An API client for a kind within the scope: for watches of the controller's own kind and of kinds that trigger
    /// it.
    pub fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        }
    }

    /// Like `api`, for a dynamic kind.
    pub fn api_of<K>(&self, client: &Client, resource: &ApiResource) -> Api<K>
    where
        K: Resource<DynamicType = ApiResource, Scope = kube::core::DynamicResourceScope>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
            None => Api::all_with(client.clone(), resource),
        }
    }

    /// Whether an object is reconciled by this manager.
    pub fn is_own(&self, object: &impl ResourceExt) -> bool {
        let filter = self.filter.as_ref();
        filter.is_none_or(|filter| object.labels().get(WATCH_FILTER) == Some(filter))
    }

    /// List parameters for the objects of this manager.
    pub fn listed(&self) -> ListParams {
        match self.selector() {
            Some(selector) => ListParams::default().labels(&selector),
            None => ListParams::default(),
        }
    }

    fn selector(&self) -> Option<String> {
        self.filter.as_ref().map(|value| format!("{WATCH_FILTER}={value}"))
    }

    /// Objects with the label of a Cluster that are created, deleted or changed in `facts`, in each namespace with a
    /// Cluster, as soon as there is one. So no right to read such objects in all namespaces is needed. A watch that
    /// was started does not end.
    pub fn beside_clusters<K, F, N>(
        &self,
        caches: &Caches,
        facts: N,
    ) -> impl Stream<Item = Arc<K>> + Send + use<K, F, N>
    where
        K: Cached + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        F: PartialEq + Send + 'static,
        N: Fn(&K) -> F + Clone + Send + 'static,
    {
        let shared = caches.clone();
        first_seen(self.namespaces(caches))
            .map(move |namespace| shared.beside_clusters::<K>(&namespace).changed(facts.clone()).boxed())
            .flatten_unordered(None)
    }

    /// Namespaces with Clusters, each at least once.
    fn namespaces(&self, caches: &Caches) -> BoxStream<'static, String> {
        match &self.namespace {
            // This stream never ends, so the merged stream continues.
            Some(namespace) => {
                futures::stream::iter([namespace.clone()]).chain(futures::stream::pending()).boxed()
            }
            None => caches.of::<Cluster>().keys().map(|cluster| cluster.namespace).boxed(),
        }
    }
}

/// Each item at its first occurrence.
pub fn first_seen(items: impl Stream<Item = String>) -> impl Stream<Item = String> {
    let mut seen = HashSet::new();
    items.filter(move |item| std::future::ready(seen.insert(item.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_what_was_said_and_nothing_is_no_limit() {
        let scope =
            |namespace: &str, filter: &str| Scope::new(Some(namespace.to_owned()), Some(filter.to_owned()));
        assert_eq!(scope("", ""), Scope::default());
        for (scope, namespace, selector) in [
            (Scope::default(), None, None),
            (scope("yard", ""), Some("yard"), None),
            (scope("", "blue"), None, Some("cluster.x-k8s.io/watch-filter=blue")),
            (scope("yard", "blue"), Some("yard"), Some("cluster.x-k8s.io/watch-filter=blue")),
        ] {
            assert_eq!(scope.namespace.as_deref(), namespace);
            let labelled = |value: &str| {
                let mut object = Cluster::new("c", Default::default());
                object.labels_mut().insert(WATCH_FILTER.to_owned(), value.to_owned());
                scope.is_own(&object)
            };
            assert_eq!((labelled("blue"), labelled("red")), (true, selector.is_none()));
            assert_eq!(scope.listed().label_selector.as_deref(), selector);
        }
    }

    #[tokio::test]
    async fn a_namespace_is_new_once() {
        let names = ["a", "b", "a", "c", "b"].map(str::to_owned);
        let seen: Vec<String> = first_seen(futures::stream::iter(names)).collect().await;
        assert_eq!(seen, ["a", "b", "c"]);
    }
}
