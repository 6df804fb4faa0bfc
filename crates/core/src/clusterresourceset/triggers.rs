//! What wakes a ClusterResourceSet's reconcile.

use capstan_api::addons::{ClusterResourceSet, RESOURCE_SET_SECRET_TYPE, ResourceKind};
use capstan_api::conditions::is_true;
use capstan_api::core::Cluster;
use capstan_controller::Cache;
use capstan_controller::cache::Cached;
use capstan_controller::scope::first_seen;
use futures::stream::{BoxStream, iter, select_all};
use futures::{Stream, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, PartialObjectMeta};
use kube::core::SelectorExt as _;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Config;
use kube::{Client, Resource, ResourceExt as _};

use super::ClusterResourceSetReconciler;
use super::observe::selector;
use crate::Core;
use crate::cluster::provisioned;
use crate::names::cluster::types::{CONTROL_PLANE_INITIALIZED, REMOTE_CONNECTION_PROBE};

/// Runs the controller until `stop` completes.
pub async fn run(core: Core, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let all = core.caches.of::<ClusterResourceSet>();
    let of_clusters = all.clone();
    let clusters = core
        .caches
        .of::<Cluster>()
        .changed(|cluster| {
            (
                cluster.metadata.labels.clone(),
                cluster.metadata.deletion_timestamp.is_some(),
                provisioned(cluster),
                is_true(cluster, CONTROL_PLANE_INITIALIZED),
                is_true(cluster, REMOTE_CONNECTION_PROBE),
            )
        })
        .then(move |cluster| {
            let sets = of_clusters.clone();
            async move {
                let selects = |set: &ClusterResourceSet| {
                    selector(set).is_ok_and(|selector| selector.matches(cluster.labels()))
                };
                those(&sets, &cluster.namespace().unwrap_or_default(), selects).await
            }
        })
        .flat_map(iter)
        .boxed();
    let secrets = Config::default().fields(&format!("type={RESOURCE_SET_SECRET_TYPE}"));
    let also = select_all([
        clusters,
        of_resources::<ConfigMap>(&core.client, &all, Config::default(), ResourceKind::ConfigMap),
        of_resources::<Secret>(&core.client, &all, secrets, ResourceKind::Secret),
    ]);
    let scope = core.scope.clone();
    capstan_controller::run::run(ClusterResourceSetReconciler::new(core), all, scope, also, stop).await;
}

/// The ClusterResourceSets of ConfigMaps or Secrets that change. They are watched in namespaces with a ClusterResourceSet and nowhere
/// else, and only their metadata.
fn of_resources<K>(
    client: &Client,
    all: &Cache<ClusterResourceSet>,
    config: Config,
    kind: ResourceKind,
) -> BoxStream<'static, ObjectRef<ClusterResourceSet>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Send + Sync + 'static,
    PartialObjectMeta<K>: Cached + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let (client, sets) = (client.clone(), all.clone());
    changed_in::<K>(all, move |namespace| {
        let api: Api<PartialObjectMeta<K>> = Api::namespaced(client.clone(), namespace);
        Cache::watching(api, config.clone(), &K::kind(&()))
    })
    .then(move |changed| {
        let sets = sets.clone();
        async move {
            let name = changed.name_any();
            let names = |set: &ClusterResourceSet| {
                set.spec.resources.iter().any(|resource| resource.kind == kind && resource.name == name)
            };
            those(&sets, &changed.namespace().unwrap_or_default(), names).await
        }
    })
    .flat_map(iter)
    .boxed()
}

fn changed_in<K>(
    all: &Cache<ClusterResourceSet>,
    watch: impl Fn(&str) -> Cache<PartialObjectMeta<K>> + Send + 'static,
) -> impl Stream<Item = std::sync::Arc<PartialObjectMeta<K>>> + Send + 'static
where
    K: Send + Sync + 'static,
    PartialObjectMeta<K>: Cached,
{
    first_seen(all.keys().map(|set| set.namespace))
        .map(move |namespace| watch(&namespace).changed(kube::ResourceExt::resource_version).boxed())
        .flatten_unordered(None)
}

async fn those(
    sets: &Cache<ClusterResourceSet>,
    namespace: &str,
    is_one: impl Fn(&ClusterResourceSet) -> bool,
) -> Vec<ObjectRef<ClusterResourceSet>> {
    // Not listed yet: each is reconciled when it is.
    let found = sets.in_namespace(namespace).await.unwrap_or_default();
    let found = found.iter().filter(|set| is_one(set));
    found.map(|set| ObjectRef::from_obj(set.as_ref())).collect()
}
