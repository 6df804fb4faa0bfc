//! Which objects a manager looks after: those of one namespace or of all, with a certain label or with any.
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

/// What a manager looks after. Everything, by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    namespace: Option<String>,
    filter: Option<String>,
}

impl Scope {
    /// Objects of this namespace whose label `cluster.x-k8s.io/watch-filter` has this value. Nothing said is no limit.
    pub fn new(namespace: Option<String>, filter: Option<String>) -> Self {
        let said = |word: Option<String>| word.filter(|word| !word.is_empty());
        Self { namespace: said(namespace), filter: said(filter) }
    }

    /// The value of the label that objects must have.
    pub fn filter(&self) -> Option<&str> {
        self.filter.as_deref()
    }

    /// A kind as far as this manager may look: where it watches, and for others that wake its own.
    pub fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        }
    }

    /// The same of a kind that is known by name only.
    pub fn api_of<K>(&self, client: &Client, resource: &ApiResource) -> Api<K>
    where
        K: Resource<DynamicType = ApiResource, Scope = kube::core::DynamicResourceScope>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
            None => Api::all_with(client.clone(), resource),
        }
    }

    /// Whether an object is given to a reconciler of its kind.
    pub fn is_own(&self, object: &impl ResourceExt) -> bool {
        let filter = self.filter.as_ref();
        filter.is_none_or(|filter| object.labels().get(WATCH_FILTER) == Some(filter))
    }

    /// Lists only what is inside.
    pub fn listed(&self) -> ListParams {
        match self.selector() {
            Some(selector) => ListParams::default().labels(&selector),
            None => ListParams::default(),
        }
    }

    fn selector(&self) -> Option<String> {
        self.filter.as_ref().map(|value| format!("{WATCH_FILTER}={value}"))
    }

    /// Objects with the label of a Cluster that have come, changed in `facts`, or gone, in each namespace in which there is
    /// a Cluster, from the moment there is one, and nowhere else: so that nobody needs the right to read such objects
    /// everywhere. Once begun, a watch does not end.
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
            // It never ends: what is merged with it goes on.
            Some(namespace) => {
                futures::stream::iter([namespace.clone()]).chain(futures::stream::pending()).boxed()
            }
            None => caches.of::<Cluster>().keys().map(|cluster| cluster.namespace).boxed(),
        }
    }
}

/// Each item when it comes for the first time.
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
