//! The events that trigger a reconcile of a Host.

use capstan_api::bootstrap::AGENT_CONNECTED;
use capstan_api::conditions::{get, is_false, types};
use capstan_api::core::Machine;
use capstan_api::infrastructure::{Host, HostMachine, HostRegistration};
use capstan_controller::run;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource as _, ResourceExt as _};

use crate::context::Infrastructure;

/// Hosts that are reconciled because of another object.
pub(super) fn all(infrastructure: &Infrastructure) -> BoxStream<'static, ObjectRef<Host>> {
    let of_machines = futures::stream::select(of_machines(infrastructure), of_agents(infrastructure));
    let of_drivers = futures::stream::select(of_drivers(infrastructure), of_registrations(infrastructure));
    futures::stream::select(of_machines, of_drivers).boxed()
}

/// The host of a Machine whose condition `AgentConnected` has changed.
fn of_agents(infrastructure: &Infrastructure) -> impl Stream<Item = ObjectRef<Host>> + Send + use<> {
    let host_machines = infrastructure.caches.of::<HostMachine>();
    infrastructure
        .caches
        .of::<Machine>()
        // Of a change, the Machine before it comes, too. So one that is heard again is here as well.
        .changed(|machine| is_false(machine, AGENT_CONNECTED))
        .filter(|machine| std::future::ready(is_silent(machine)))
        .filter_map(move |machine| {
            let (host_machines, namespace) = (host_machines.clone(), machine.namespace().unwrap_or_default());
            async move {
                // An object that cannot be read now is reconciled at its resync.
                let name = &machine.spec.infrastructure_ref.name;
                let found = host_machines.get(&namespace, name).await.ok().flatten()?;
                found.spec.host_name.as_deref().map(|host| run::reference(&namespace, host))
            }
        })
}

/// The host of a HostMachine that is being deleted, if the deletion or its condition has changed.
fn of_machines(infrastructure: &Infrastructure) -> impl Stream<Item = ObjectRef<Host>> + Send + use<> {
    infrastructure
        .caches
        .of::<HostMachine>()
        .changed(|machine| {
            let deleting = get(machine, types::DELETING).map(|condition| condition.message.clone());
            (machine.spec.host_name.clone(), machine.metadata.deletion_timestamp.is_some(), deleting)
        })
        .filter_map(|machine| {
            let namespace = machine.namespace().unwrap_or_default();
            std::future::ready(machine.spec.host_name.as_deref().map(|name| run::reference(&namespace, name)))
        })
}

fn is_silent(machine: &Machine) -> bool {
    let reference = &machine.spec.infrastructure_ref;
    let is_on_host =
        reference.kind == HostMachine::kind(&()) && reference.api_group == HostMachine::group(&());
    is_on_host && is_false(machine, AGENT_CONNECTED)
}

/// The host of a machine that has dialed in, or of a registration that was recorded or deleted.
fn of_registrations(infrastructure: &Infrastructure) -> impl Stream<Item = ObjectRef<Host>> + Send + use<> {
    infrastructure
        .caches
        .of::<HostRegistration>()
        .changed(|registration| {
            let connected = registration.status.as_ref().and_then(|status| status.connected_at.clone());
            (registration.spec.host.clone(), connected)
        })
        .filter_map(|registration| {
            let namespace = registration.namespace().unwrap_or_default();
            let host = registration.spec.host.as_deref().map(|name| run::reference(&namespace, name));
            std::future::ready(host)
        })
}

/// Hosts that their drivers report as changed.
fn of_drivers(infrastructure: &Infrastructure) -> impl Stream<Item = ObjectRef<Host>> + Send + use<> {
    infrastructure.drivers.changes().map(|(namespace, name)| run::reference(&namespace, &name))
}
