//! What wakes a HostMachineTemplate's reconcile: whatever changes which hosts can be claimed.

use capstan_api::infrastructure::{Host, HostCluster, HostMachineTemplate};
use capstan_controller::watch;
use futures::stream::{BoxStream, iter};
use futures::{Stream, StreamExt as _};
use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;

use crate::context::Infrastructure;
use crate::host::is_reachability_known;
use crate::hostmachine::Obstacle;
use crate::roster::Roster;

type Known = Roster<HostMachineTemplate, ()>;

/// Templates that something else gives a reason to look at.
pub(super) fn all(
    infrastructure: &Infrastructure,
    known: &Known,
) -> BoxStream<'static, ObjectRef<HostMachineTemplate>> {
    let of_hosts = watch::changed(infrastructure.all::<Host>(), watcher::Config::default(), |host| {
        (host.metadata.labels.clone(), Obstacle::of(host), is_reachability_known(host))
    });
    let of_host_clusters =
        watch::changed(infrastructure.all::<HostCluster>(), watcher::Config::default(), |host_cluster| {
            host_cluster.spec.host_selector.clone()
        });
    futures::stream::select(beside(of_hosts, known.clone()), beside(of_host_clusters, known.clone())).boxed()
}

/// All templates in the namespace of what has changed.
fn beside<K: Resource>(
    changed: impl Stream<Item = K>,
    known: Known,
) -> impl Stream<Item = ObjectRef<HostMachineTemplate>> {
    changed.flat_map(move |object| iter(known.find(object.meta().namespace.as_deref(), |_| true)))
}
