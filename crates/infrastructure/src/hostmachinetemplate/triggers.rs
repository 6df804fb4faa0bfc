//! What wakes a HostMachineTemplate's reconcile: whatever changes which hosts can be claimed.

use capstan_api::infrastructure::{Host, HostCluster, HostMachineTemplate};
use capstan_controller::Cache;
use futures::stream::{BoxStream, iter};
use futures::{Stream, StreamExt as _};
use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use std::sync::Arc;

use crate::context::Infrastructure;
use crate::host::is_reachability_known;
use crate::hostmachine::Obstacle;

/// Templates that something else gives a reason to look at.
pub(super) fn all(infrastructure: &Infrastructure) -> BoxStream<'static, ObjectRef<HostMachineTemplate>> {
    let known = infrastructure.caches.of::<HostMachineTemplate>();
    let of_hosts = infrastructure
        .caches
        .of::<Host>()
        .changed(|host| (host.metadata.labels.clone(), Obstacle::of(host), is_reachability_known(host)));
    let of_host_clusters = infrastructure
        .caches
        .of::<HostCluster>()
        .changed(|host_cluster| host_cluster.spec.host_selector.clone());
    futures::stream::select(beside(of_hosts, known.clone()), beside(of_host_clusters, known)).boxed()
}

/// All templates in the namespace of what has changed.
fn beside<K: Resource + Send + Sync>(
    changed: impl Stream<Item = Arc<K>>,
    known: Cache<HostMachineTemplate>,
) -> impl Stream<Item = ObjectRef<HostMachineTemplate>> {
    changed
        .then(move |object| {
            let known = known.clone();
            async move {
                let namespace = object.meta().namespace.clone().unwrap_or_default();
                // A kind that was not listed yet: each object is looked at when it is.
                let all = known.in_namespace(&namespace).await.unwrap_or_default();
                all.iter().map(|found| ObjectRef::from_obj(found.as_ref())).collect::<Vec<_>>()
            }
        })
        .flat_map(iter)
}
