//! What wakes a HostCluster's reconcile.

use capstan_api::core::Cluster;
use capstan_api::infrastructure::{Host, HostCluster, HostMachine, HostMachineTemplate};
use capstan_controller::watch;
use futures::stream::{BoxStream, iter};
use futures::{Stream, StreamExt as _};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Resource as _, ResourceExt as _};

use crate::context::Infrastructure;
use crate::driver::HostKind;
use crate::host::is_reachability_known;
use crate::hostmachine::Obstacle;
use crate::roster::Roster;

/// What a HostCluster is remembered by.
#[derive(Clone, Debug, Default)]
pub(super) struct Note {
    /// Its Cluster.
    pub(super) cluster: Option<String>,
}

type Known = Roster<HostCluster, Note>;

/// HostClusters that something else gives a reason to look at.
pub(super) fn all(
    infrastructure: &Infrastructure,
    known: &Known,
) -> BoxStream<'static, ObjectRef<HostCluster>> {
    let of_hosts = watch::changed(infrastructure.all::<Host>(), watcher::Config::default(), host_facts);
    let of_machines = watch::changed(infrastructure.all::<HostMachine>(), watcher::Config::default(), |_| ());
    let of_templates =
        watch::changed(infrastructure.all::<HostMachineTemplate>(), watcher::Config::default(), |template| {
            template.spec.template.spec.host_selector.clone()
        });
    futures::stream::select_all([
        of_clusters(infrastructure).boxed(),
        of_control_planes(infrastructure, known.clone()).boxed(),
        beside(of_hosts, known.clone()).boxed(),
        beside(of_machines, known.clone()).boxed(),
        beside(of_templates, known.clone()).boxed(),
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
    watch::changed(infrastructure.all::<Cluster>(), watcher::Config::default(), |cluster| {
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
            .map(|reference| watch::reference(&cluster.namespace().unwrap_or_default(), &reference.name));
        std::future::ready(ours)
    })
}

/// A control plane is owned by its Cluster.
fn of_control_planes(
    infrastructure: &Infrastructure,
    known: Known,
) -> impl Stream<Item = ObjectRef<HostCluster>> + use<> {
    infrastructure.externals.changes::<Cluster>().boxed().flat_map(move |cluster| {
        let is_of = |note: &Note| note.cluster.as_deref() == Some(&cluster.name);
        iter(known.find(cluster.namespace.as_deref(), is_of))
    })
}

/// All HostClusters in the namespace of what has changed.
fn beside<K: kube::Resource>(
    changed: impl Stream<Item = K>,
    known: Known,
) -> impl Stream<Item = ObjectRef<HostCluster>> {
    changed.flat_map(move |object| iter(known.find(object.meta().namespace.as_deref(), |_| true)))
}
