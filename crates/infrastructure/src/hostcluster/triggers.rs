//! The events that trigger a reconcile of a HostCluster.

use capstan_api::core::Cluster;
use capstan_api::infrastructure::{Host, HostCluster, HostMachine, HostMachineTemplate};
use capstan_api::meta::labels;
use capstan_controller::{Cache, run};
use futures::stream::{BoxStream, iter};
use futures::{Stream, StreamExt as _};
use kube::api::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource as _, ResourceExt as _};

use super::coalesce::{coalesced, rest};
use crate::context::Infrastructure;
use crate::driver::HostKind;
use crate::host::is_reachability_known;
use crate::hostmachine::Obstacle;

/// HostClusters that are reconciled because of another object.
pub(super) fn all(infrastructure: &Infrastructure) -> BoxStream<'static, ObjectRef<HostCluster>> {
    let caches = &infrastructure.caches;
    let known = caches.of::<HostCluster>();
    let namespace_of = |meta: &ObjectMeta| meta.namespace.clone().unwrap_or_default();
    let of_hosts = caches.of::<Host>().changed(host_facts).map(move |host| namespace_of(&host.metadata));
    let of_templates = caches
        .of::<HostMachineTemplate>()
        .changed(|template| template.spec.template.spec.host_selector.clone())
        .map(move |template| namespace_of(&template.metadata));
    let changed = futures::stream::select(of_hosts, of_templates).boxed();
    futures::stream::select_all([
        of_clusters(infrastructure).boxed(),
        of_control_planes(infrastructure, known.clone()).boxed(),
        of_machines(infrastructure, known.clone()).boxed(),
        beside(changed, known, caches.of()).boxed(),
    ])
    .boxed()
}

/// The HostCluster of the Cluster of a HostMachine that is created or deleted.
fn of_machines(
    infrastructure: &Infrastructure,
    known: Cache<HostCluster>,
) -> impl Stream<Item = ObjectRef<HostCluster>> + use<> {
    infrastructure
        .caches
        .of::<HostMachine>()
        .changed(|machine| machine.labels().get(labels::CLUSTER_NAME).cloned())
        .then(move |machine| {
            let known = known.clone();
            async move {
                let namespace = machine.namespace().unwrap_or_default();
                match machine.labels().get(labels::CLUSTER_NAME) {
                    Some(cluster) => of_cluster(&known, &namespace, cluster).await,
                    None => Vec::new(),
                }
            }
        })
        .flat_map(iter)
}

/// The HostCluster of a Cluster, found by the label that core sets.
async fn of_cluster(
    known: &Cache<HostCluster>,
    namespace: &str,
    cluster: &str,
) -> Vec<ObjectRef<HostCluster>> {
    // The kind is not listed yet: each object is reconciled when it is.
    let found = known.of_cluster(namespace, cluster).await.unwrap_or_default();
    found.iter().map(|found| ObjectRef::from_obj(found.as_ref())).collect()
}

/// The fields of a Host that a HostCluster evaluates.
fn host_facts(host: &Host) -> impl PartialEq + Send + 'static + use<> {
    (
        host.metadata.labels.clone(),
        host.spec.failure_domain.clone(),
        host.spec.claim.clone(),
        HostKind::of(host),
        Obstacle::of(host),
        is_reachability_known(host),
    )
}

fn of_clusters(infrastructure: &Infrastructure) -> impl Stream<Item = ObjectRef<HostCluster>> + use<> {
    infrastructure
        .caches
        .of::<Cluster>()
        .changed(|cluster| {
            (
                cluster.spec.paused,
                cluster.spec.control_plane_endpoint.clone(),
                cluster.spec.infrastructure_ref.clone(),
                cluster.spec.control_plane_ref.clone(),
            )
        })
        .filter_map(|cluster| {
            let reference = cluster.spec.infrastructure_ref.as_ref();
            let ours = reference
                .filter(|reference| reference.kind == HostCluster::kind(&()))
                .map(|reference| run::reference(&cluster.namespace().unwrap_or_default(), &reference.name));
            std::future::ready(ours)
        })
}

/// The HostCluster of the Cluster that owns a changed control plane.
fn of_control_planes(
    infrastructure: &Infrastructure,
    known: Cache<HostCluster>,
) -> impl Stream<Item = ObjectRef<HostCluster>> + use<> {
    infrastructure
        .externals
        .changes::<Cluster>()
        .then(move |cluster| {
            let known = known.clone();
            async move { of_cluster(&known, &cluster.namespace.unwrap_or_default(), &cluster.name).await }
        })
        .flat_map(iter)
}

/// All HostClusters of namespaces with changes, at the pace at which they can be reconciled.
fn beside(
    changed: BoxStream<'static, String>,
    known: Cache<HostCluster>,
    hosts: Cache<Host>,
) -> impl Stream<Item = ObjectRef<HostCluster>> {
    let counted = known.clone();
    let rest_of = move |namespace: String| {
        let (known, hosts) = (counted.clone(), hosts.clone());
        async move {
            let clusters = known.in_namespace(&namespace).await.unwrap_or_default();
            let hosts = hosts.in_namespace(&namespace).await.unwrap_or_default();
            rest(clusters.len(), hosts.len())
        }
    };
    coalesced(changed, rest_of)
        .then(move |namespace| {
            let known = known.clone();
            async move {
                let all = known.in_namespace(&namespace).await.unwrap_or_default();
                all.iter().map(|found| ObjectRef::from_obj(found.as_ref())).collect::<Vec<_>>()
            }
        })
        .flat_map(iter)
}
