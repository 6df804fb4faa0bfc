//! What wakes a HostMachine's reconcile.

use capstan_api::core::{Cluster, Machine};
use capstan_api::infrastructure::{Host, HostMachine};
use capstan_api::meta::labels;
use capstan_controller::{Cache, run};
use futures::stream::{BoxStream, iter};
use futures::{Stream, StreamExt as _};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource as _, ResourceExt as _};

use super::decide::claim::Obstacle;
use crate::context::Infrastructure;

/// HostMachines that something else gives a reason to look at.
pub(super) fn all(infrastructure: &Infrastructure) -> BoxStream<'static, ObjectRef<HostMachine>> {
    let known = infrastructure.caches.of::<HostMachine>();
    futures::stream::select_all([
        of_machines(infrastructure).boxed(),
        of_clusters(infrastructure, known.clone()).boxed(),
        of_hosts(infrastructure, known.clone()).boxed(),
        of_drivers(infrastructure, known).boxed(),
    ])
    .boxed()
}

fn of_machines(infrastructure: &Infrastructure) -> impl Stream<Item = ObjectRef<HostMachine>> + use<> {
    infrastructure
        .caches
        .of::<Machine>()
        .changed(|machine| {
            (machine.spec.bootstrap.data_secret_name.clone(), machine.spec.infrastructure_ref.clone())
        })
        .filter_map(|machine| {
            let reference = &machine.spec.infrastructure_ref;
            let ours =
                reference.kind == HostMachine::kind(&()) && reference.api_group == HostMachine::group(&());
            let namespace = machine.namespace().unwrap_or_default();
            std::future::ready(ours.then(|| run::reference(&namespace, &reference.name)))
        })
}

fn of_clusters(
    infrastructure: &Infrastructure,
    known: Cache<HostMachine>,
) -> impl Stream<Item = ObjectRef<HostMachine>> + use<> {
    infrastructure
        .caches
        .of::<Cluster>()
        .changed(|cluster| {
            let status = cluster.status.as_ref();
            (cluster.spec.paused, status.and_then(|status| status.initialization.clone()))
        })
        .then(move |cluster| {
            let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
            found(known.clone(), namespace, move |machine| {
                machine.labels().get(labels::CLUSTER_NAME) == Some(&name)
            })
        })
        .flat_map(iter)
}

/// A host that changes is news for the machine that has it; a host that is free, for all who have none.
fn of_hosts(
    infrastructure: &Infrastructure,
    known: Cache<HostMachine>,
) -> impl Stream<Item = ObjectRef<HostMachine>> + use<> {
    infrastructure
        .caches
        .of::<Host>()
        .changed(host_facts)
        .then(move |host| {
            let is_free = Obstacle::of(&host).is_none();
            let (name, namespace) = (host.name_any(), host.namespace().unwrap_or_default());
            found(known.clone(), namespace, move |machine| match &machine.spec.host_name {
                Some(host) => *host == name,
                None => is_free,
            })
        })
        .flat_map(iter)
}

/// All of a Host that a HostMachine looks at.
pub(super) fn host_facts(host: &Host) -> impl PartialEq + Send + 'static + use<> {
    let answers = (crate::host::is_reachable(host), crate::host::is_usable(host));
    let addresses = host.status.as_ref().map(|status| status.addresses.clone());
    (host.spec.clone(), host.metadata.labels.clone(), answers, addresses)
}

fn of_drivers(
    infrastructure: &Infrastructure,
    known: Cache<HostMachine>,
) -> impl Stream<Item = ObjectRef<HostMachine>> + use<> {
    infrastructure
        .drivers
        .changes()
        .then(move |(namespace, name)| {
            found(known.clone(), namespace, move |machine| machine.spec.host_name.as_deref() == Some(&name))
        })
        .flat_map(iter)
}

async fn found(
    known: Cache<HostMachine>,
    namespace: String,
    matches: impl Fn(&HostMachine) -> bool,
) -> Vec<ObjectRef<HostMachine>> {
    // A kind that was not listed yet: each object is looked at when it is.
    let all = known.in_namespace(&namespace).await.unwrap_or_default();
    let found = all.iter().filter(|machine| matches(machine));
    found.map(|found| ObjectRef::from_obj(found.as_ref())).collect()
}
