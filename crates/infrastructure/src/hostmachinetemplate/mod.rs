//! HostMachineTemplate: the number of hosts that a machine made from it could claim.
//!
//! The hosts are counted once a minute and when the template is created or changes, and large numbers are rounded.
//! Otherwise every claim in a large namespace would cause a write of every template.
//!
//! Reads: the template, the Cluster that owns it, the HostCluster of that, and the Hosts of its namespace. Writes:
//! `status.claimableHosts`. Only the template itself and the clock trigger a reconcile, so it has no triggers.
//!
//! Phases: pause, age of the last count, count, status.

mod act;
mod counted;
mod decide;
mod observe;
mod status;

pub use decide::{Observed, decide};

use capstan_api::infrastructure::HostMachineTemplate;
use capstan_controller::{Next, Reconciler, Result, pause};
use kube::{Resource as _, ResourceExt as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::context::Infrastructure;
use counted::{Counted, SharedCounts};

/// Interval of the counts.
const AGAIN: Duration = Duration::from_secs(60);

struct Templates {
    infrastructure: Infrastructure,
    counted: Counted,
    shared_counts: SharedCounts,
}

/// Runs the controller until `stop` completes.
pub async fn run(infrastructure: Infrastructure, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let also = futures::stream::pending();
    let (cache, scope) = (infrastructure.caches.of(), infrastructure.scope.clone());
    capstan_controller::run::run(
        Templates { infrastructure, counted: Counted::default(), shared_counts: SharedCounts::default() },
        cache,
        scope,
        also,
        stop,
    )
    .await;
}

impl Reconciler for Templates {
    type Object = HostMachineTemplate;

    fn name(&self) -> &'static str {
        "hostmachinetemplate"
    }

    async fn reconcile(&self, template: Arc<HostMachineTemplate>) -> Result<Next> {
        if template.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Changed);
        }
        let infrastructure = &self.infrastructure;
        let namespace = template.namespace().unwrap_or_default();
        let cluster = observe::cluster(infrastructure, &template).await?;
        let kind = HostMachineTemplate::kind(&());
        if pause::reason(cluster.as_deref(), &kind, template.meta()).is_some() {
            return Ok(Next::Changed);
        }
        // Its own write wakes it, too, and so would every host that is claimed meanwhile.
        if let Some(wait) = self.counted.rests(&template, Instant::now()) {
            return Ok(Next::After(wait));
        }
        let host_cluster = observe::host_cluster(infrastructure, cluster.as_deref(), &namespace).await?;
        let hosts = infrastructure.remembered_hosts(&namespace).await?;
        let selector = &template.spec.template.spec.host_selector;
        let selectors =
            (selector, host_cluster.as_ref().map(|host_cluster| &host_cluster.spec.host_selector));
        let key = (namespace, format!("{selectors:?}"));
        let claimable = self.shared_counts.get(key, Instant::now(), || {
            decide(&Observed { template: &template, host_cluster: host_cluster.as_deref(), hosts: &hosts })
        });
        self.counted.note(&template, Instant::now());
        if let Some(patch) = status::patch(&template, claimable) {
            act::write(infrastructure, &template, &patch).await?;
        }
        Ok(Next::After(AGAIN))
    }
}
