//! The events that trigger a reconcile of a HostRegistration.

use capstan_api::infrastructure::{Host, HostRegistration};
use capstan_controller::run;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;

use crate::context::Infrastructure;

/// The registration that a Host names, or named before it was changed.
pub(super) fn all(infrastructure: &Infrastructure) -> BoxStream<'static, ObjectRef<HostRegistration>> {
    infrastructure
        .caches
        .of::<Host>()
        .changed(|host| host.spec.registration.clone())
        .filter_map(|host| {
            let namespace = host.namespace().unwrap_or_default();
            let access = host.spec.registration.as_ref();
            std::future::ready(access.map(|access| run::reference(&namespace, &access.name)))
        })
        .boxed()
}
