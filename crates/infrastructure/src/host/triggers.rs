//! What wakes a Host's reconcile.

use capstan_api::conditions::{get, types};
use capstan_api::infrastructure::{Host, HostMachine};
use capstan_controller::run;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;

use crate::context::Infrastructure;

/// Hosts that something else gives a reason to look at.
pub(super) fn all(infrastructure: &Infrastructure) -> BoxStream<'static, ObjectRef<Host>> {
    futures::stream::select(of_machines(infrastructure), of_drivers(infrastructure)).boxed()
}

/// The host of a HostMachine that is deleted, or says something new about that.
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

/// Hosts that would answer differently now.
fn of_drivers(infrastructure: &Infrastructure) -> impl Stream<Item = ObjectRef<Host>> + Send + use<> {
    infrastructure.drivers.changes().map(|(namespace, name)| run::reference(&namespace, &name))
}
