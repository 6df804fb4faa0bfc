//! The events that trigger a reconcile of a HostMachine.

use capstan_api::core::{Cluster, Machine};
use capstan_api::infrastructure::{Host, HostMachine};
use capstan_controller::run;
use futures::stream::{BoxStream, iter};
use futures::{Stream, StreamExt as _};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource as _, ResourceExt as _};
use std::sync::Arc;

use super::decide::claim::Obstacle;
use super::hostless::Hostless;
use crate::context::Infrastructure;

/// HostMachines that are reconciled because of another object.
pub(super) fn all(infrastructure: &Infrastructure) -> BoxStream<'static, ObjectRef<HostMachine>> {
    let hostless = Arc::new(Hostless::default());
    futures::stream::select_all([
        of_machines(infrastructure).boxed(),
        of_clusters(infrastructure).boxed(),
        without_host(infrastructure, Arc::clone(&hostless)).boxed(),
        of_hosts(infrastructure, hostless).boxed(),
        of_drivers(infrastructure).boxed(),
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

fn of_clusters(infrastructure: &Infrastructure) -> impl Stream<Item = ObjectRef<HostMachine>> + use<> {
    let machines = infrastructure.caches.of::<HostMachine>();
    infrastructure
        .caches
        .of::<Cluster>()
        .changed(|cluster| {
            let status = cluster.status.as_ref();
            (cluster.spec.paused, status.and_then(|status| status.initialization.clone()))
        })
        .then(move |cluster| {
            let machines = machines.clone();
            async move {
                let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
                // The kind is not listed yet: each object is reconciled when it is.
                let found = machines.of_cluster(&namespace, &name).await.unwrap_or_default();
                iter(found).map(|machine| ObjectRef::from_obj(machine.as_ref()))
            }
        })
        .flatten()
}

/// Keeps `hostless` up to date. A machine without a host is reconciled once it is in the index, because hosts that
/// became free before triggered only the machines in it.
fn without_host(
    infrastructure: &Infrastructure,
    hostless: Arc<Hostless>,
) -> impl Stream<Item = ObjectRef<HostMachine>> + use<> {
    let machines = infrastructure.caches.of::<HostMachine>();
    let changed =
        machines.changed(|machine| (machine.spec.host_name.clone(), machine.spec.provider_id.is_some()));
    changed.filter_map(move |machine| {
        let (machines, hostless) = (machines.clone(), Arc::clone(&hostless));
        async move {
            let (namespace, name) = (machine.namespace().unwrap_or_default(), machine.name_any());
            // The stream also has previous states and deletions.
            let now = machines.peek(&namespace, &name).await.ok().flatten();
            hostless.note(&namespace, &name, now.as_deref()).then(|| run::reference(&namespace, &name))
        }
    })
}

/// The machine that has claimed a changed host, and the machines without a host.
fn of_hosts(
    infrastructure: &Infrastructure,
    hostless: Arc<Hostless>,
) -> impl Stream<Item = ObjectRef<HostMachine>> + use<> {
    let hosts = infrastructure.caches.of::<Host>();
    let changed = hosts.changed(host_facts);
    changed
        .then(move |host| {
            let (hosts, hostless) = (hosts.clone(), Arc::clone(&hostless));
            async move {
                let (namespace, name) = (host.namespace().unwrap_or_default(), host.name_any());
                // The stream also has previous states. A host that has just been claimed cannot be claimed by others.
                let now = hosts.peek(&namespace, &name).await.ok().flatten();
                let is_free = now.is_some_and(|now| Obstacle::of(&now).is_none());
                let others = hostless.concerned(&namespace, &name, is_free);
                let woken = holder(&host).into_iter().chain(others);
                iter(woken.map(|name| run::reference(&namespace, &name)).collect::<Vec<_>>())
            }
        })
        .flatten()
}

/// The name of the HostMachine that has claimed the host.
fn holder(host: &Host) -> Option<String> {
    host.spec.claim.as_ref().map(|claim| claim.machine_name.clone())
}

/// The fields of a Host that a HostMachine reads.
pub(super) fn host_facts(host: &Host) -> impl PartialEq + Send + 'static + use<> {
    let answers = (crate::host::is_reachable(host), crate::host::is_usable(host));
    let addresses = host.status.as_ref().map(|status| status.addresses.clone());
    (host.spec.clone(), host.metadata.labels.clone(), answers, addresses)
}

fn of_drivers(infrastructure: &Infrastructure) -> impl Stream<Item = ObjectRef<HostMachine>> + use<> {
    let hosts = infrastructure.caches.of::<Host>();
    infrastructure.drivers.changes().filter_map(move |(namespace, name)| {
        let hosts = hosts.clone();
        async move {
            let host = hosts.peek(&namespace, &name).await.ok().flatten()?;
            holder(&host).map(|machine| run::reference(&namespace, &machine))
        }
    })
}
