//! HostMachine: claims a host for a Machine, starts it with the Machine's bootstrap data, and gives it back clean.

mod act;
mod claim;
mod decide;
mod release;
mod tell;
#[cfg(test)]
mod tests;

pub use claim::{Obstacle, Wanted, choose};
pub use decide::{Observed, Step, decide, provider_id};
pub use release::Release;

use capstan_api::core::{Cluster, Machine};
use capstan_api::infrastructure::{Host, HostMachine};
use capstan_api::meta::labels;
use capstan_controller::watch;
use futures::{Stream, StreamExt as _};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Resource as _, ResourceExt as _};
use std::time::Instant;

use crate::context::Infrastructure;
use crate::roster::Roster;
use act::Machines;

/// What a HostMachine is remembered by, to be woken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note {
    cluster: Option<String>,
    /// It waits for a host, any host.
    is_waiting: bool,
    /// The host it has.
    host: Option<String>,
}

/// Runs the controller until `stop` is done.
pub async fn run(infrastructure: Infrastructure, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let known = Roster::default();
    let also = futures::stream::select_all([
        of_machines(&infrastructure).boxed(),
        of_clusters(&infrastructure, known.clone()).boxed(),
        of_hosts(&infrastructure, known.clone()).boxed(),
        of_drivers(&infrastructure, known.clone()).boxed(),
    ]);
    let (api, own) = (infrastructure.all(), infrastructure.scope.own());
    capstan_controller::run::run(
        Machines { infrastructure, known, started: Instant::now() },
        api,
        own,
        also,
        stop,
    )
    .await;
}

fn of_machines(infrastructure: &Infrastructure) -> impl Stream<Item = ObjectRef<HostMachine>> + use<> {
    watch::changed(infrastructure.all::<Machine>(), watcher::Config::default(), |machine| {
        (machine.spec.bootstrap.data_secret_name.clone(), machine.spec.infrastructure_ref.clone())
    })
    .filter_map(|machine| {
        let reference = &machine.spec.infrastructure_ref;
        let ours = reference.kind == HostMachine::kind(&()) && reference.api_group == HostMachine::group(&());
        let namespace = machine.namespace().unwrap_or_default();
        std::future::ready(ours.then(|| watch::reference(&namespace, &reference.name)))
    })
}

fn of_clusters(
    infrastructure: &Infrastructure,
    known: Roster<HostMachine, Note>,
) -> impl Stream<Item = ObjectRef<HostMachine>> + use<> {
    watch::changed(infrastructure.all::<Cluster>(), watcher::Config::default(), |cluster| {
        let status = cluster.status.as_ref();
        (cluster.spec.paused, status.and_then(|status| status.initialization.clone()))
    })
    .flat_map(move |cluster| {
        let name = cluster.name_any();
        let namespace = cluster.namespace();
        futures::stream::iter(known.find(namespace.as_deref(), |note| note.cluster.as_deref() == Some(&name)))
    })
}

/// A host that changes is news for the machine that has it; a host that is free, for all who wait.
fn of_hosts(
    infrastructure: &Infrastructure,
    known: Roster<HostMachine, Note>,
) -> impl Stream<Item = ObjectRef<HostMachine>> + use<> {
    watch::changed(infrastructure.all::<Host>(), watcher::Config::default(), host_facts).flat_map(
        move |host| {
            let is_free = Obstacle::of(&host).is_none();
            let (name, namespace) = (host.name_any(), host.namespace());
            futures::stream::iter(known.find(namespace.as_deref(), |note| {
                (is_free && note.is_waiting) || note.host.as_deref() == Some(&name)
            }))
        },
    )
}

/// All of a Host that a HostMachine looks at.
fn host_facts(host: &Host) -> impl PartialEq + Send + 'static + use<> {
    let answers = (crate::host::is_reachable(host), crate::host::is_usable(host));
    let addresses = host.status.as_ref().map(|status| status.addresses.clone());
    (host.spec.clone(), host.metadata.labels.clone(), answers, addresses)
}

fn of_drivers(
    infrastructure: &Infrastructure,
    known: Roster<HostMachine, Note>,
) -> impl Stream<Item = ObjectRef<HostMachine>> + use<> {
    infrastructure.drivers.changes().flat_map(move |(namespace, name)| {
        futures::stream::iter(known.find(Some(&namespace), |note| note.host.as_deref() == Some(&name)))
    })
}

fn cluster_name(machine: &HostMachine, owner: Option<&Machine>) -> Option<String> {
    owner
        .map(|owner| owner.spec.cluster_name.clone())
        .or_else(|| machine.labels().get(labels::CLUSTER_NAME).cloned())
}
