//! The events that trigger a reconcile of a HostPool.

use capstan_api::infrastructure::{Host, HostPool};
use capstan_controller::{owners, run};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource as _, ResourceExt as _};

use crate::context::Infrastructure;

/// The pools of Hosts that were created, changed or deleted.
pub(super) fn all(infrastructure: &Infrastructure) -> BoxStream<'static, ObjectRef<HostPool>> {
    infrastructure
        .caches
        .of::<Host>()
        .changed(|host| {
            let answers = (crate::host::is_reachable(host), crate::host::is_usable(host));
            (host.spec.clone(), host.metadata.deletion_timestamp.is_some(), answers)
        })
        .filter_map(|host| {
            let pool = owners::of_kind(host.meta(), "HostPool", &HostPool::group(&()))
                .map(|owner| run::reference(&host.namespace().unwrap_or_default(), &owner.name));
            std::future::ready(pool)
        })
        .boxed()
}
