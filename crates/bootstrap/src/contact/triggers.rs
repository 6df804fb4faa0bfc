//! The events that trigger a reconcile of a CapstanConfig when the contact of its agent changes.

use capstan_api::bootstrap::CapstanConfig;
use capstan_controller::run::reference;
use capstan_controller::{Caches, Scope, owners};
use futures::stream::{self, Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;
use std::sync::Arc;
use std::time::Duration;

use super::Heard;
use super::heard::ConfigKey;

/// Interval of the check for agents that have become silent.
const EVERY: Duration = Duration::from_secs(15);

/// CapstanConfigs whose agent has become silent or connected again. Other heartbeats trigger nothing.
pub(crate) fn configs(
    caches: &Caches,
    scope: &Scope,
    heard: &Arc<Heard>,
) -> impl Stream<Item = ObjectRef<CapstanConfig>> + Send + 'static + use<> {
    let (hears, looks) = (Arc::clone(heard), Arc::clone(heard));
    let heartbeats = scope
        .beside_clusters(caches, |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.clone()))
        .filter_map(move |lease| std::future::ready(is_news(&hears, &lease)));
    let silences = stream::unfold((), |()| async {
        tokio::time::sleep(EVERY).await;
        Some(((), ()))
    })
    .flat_map(move |()| stream::iter(looks.changed(Timestamp::now())));
    stream::select(heartbeats, silences).map(|(namespace, name)| reference(&namespace, &name))
}

/// The CapstanConfig of a Lease whose heartbeat changes the condition.
fn is_news(heard: &Heard, lease: &Lease) -> Option<ConfigKey> {
    let owner = owners::of_kind(&lease.metadata, "CapstanConfig", "bootstrap.cluster.x-k8s.io")?;
    let config = (lease.namespace()?, owner.name.clone());
    let spec = lease.spec.as_ref()?;
    let renewed = spec.renew_time.as_ref()?.0;
    let is_news =
        heard.hear(config.clone(), renewed, spec.lease_duration_seconds.unwrap_or(0), Timestamp::now());
    is_news.then_some(config)
}
