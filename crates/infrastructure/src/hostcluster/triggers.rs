//! What wakes a HostCluster's reconcile.

use capstan_api::core::Cluster;
use capstan_api::infrastructure::{Host, HostCluster, HostMachine, HostMachineTemplate};
use capstan_controller::{Cache, owners, run};
use futures::stream::{BoxStream, iter};
use futures::{Stream, StreamExt as _};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource as _, ResourceExt as _};
use std::sync::Arc;

use crate::context::Infrastructure;
use crate::driver::HostKind;
use crate::host::is_reachability_known;
use crate::hostmachine::Obstacle;

/// HostClusters that something else gives a reason to look at.
pub(super) fn all(infrastructure: &Infrastructure) -> BoxStream<'static, ObjectRef<HostCluster>> {
    let caches = &infrastructure.caches;
    let known = caches.of::<HostCluster>();
    let of_hosts = caches.of::<Host>().changed(host_facts);
    let of_machines = caches.of::<HostMachine>().changed(|_| ());
    let of_templates = caches
        .of::<HostMachineTemplate>()
        .changed(|template| template.spec.template.spec.host_selector.clone());
    futures::stream::select_all([
        of_clusters(infrastructure).boxed(),
        of_control_planes(infrastructure, known.clone()).boxed(),
        beside(of_hosts, known.clone()).boxed(),
        beside(of_machines, known.clone()).boxed(),
        beside(of_templates, known).boxed(),
    ])
    .boxed()
}

/// All by which a Host counts: where it is, and whether a machine can have it.
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

/// A control plane is owned by its Cluster.
fn of_control_planes(
    infrastructure: &Infrastructure,
    known: Cache<HostCluster>,
) -> impl Stream<Item = ObjectRef<HostCluster>> + use<> {
    infrastructure
        .externals
        .changes::<Cluster>()
        .then(move |cluster| {
            let known = known.clone();
            async move {
                let namespace = cluster.namespace.clone().unwrap_or_default();
                let is_of = |host_cluster: &HostCluster| {
                    let owner = owners::of_kind(host_cluster.meta(), "Cluster", &Cluster::group(&()));
                    owner.is_some_and(|owner| owner.name == cluster.name)
                };
                // A kind that was not listed yet: each object is looked at when it is.
                let all = known.in_namespace(&namespace).await.unwrap_or_default();
                let found = all.iter().filter(|host_cluster| is_of(host_cluster));
                found.map(|found| ObjectRef::from_obj(found.as_ref())).collect::<Vec<_>>()
            }
        })
        .flat_map(iter)
}

/// All HostClusters in the namespace of what has changed.
fn beside<K: kube::Resource + Send + Sync>(
    changed: impl Stream<Item = Arc<K>>,
    known: Cache<HostCluster>,
) -> impl Stream<Item = ObjectRef<HostCluster>> {
    changed
        .then(move |object| {
            let known = known.clone();
            async move {
                let namespace = object.meta().namespace.clone().unwrap_or_default();
                let all = known.in_namespace(&namespace).await.unwrap_or_default();
                all.iter().map(|found| ObjectRef::from_obj(found.as_ref())).collect::<Vec<_>>()
            }
        })
        .flat_map(iter)
}
