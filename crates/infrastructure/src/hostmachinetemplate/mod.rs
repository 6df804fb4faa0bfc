//! HostMachineTemplate: says how many hosts a machine made from it could have now.
//!
//! Counted once a minute and when the template is new or changes, not with every host that is claimed: in a large namespace
//! each of many templates would be written for each of many hosts.
//!
//! Reads: the template, the Cluster that owns it, the HostCluster of that, and the Hosts of its namespace. Writes:
//! `status.claimableHosts`.

mod counted;
mod decide;

pub use decide::{Observed, decide};

use capstan_api::core::Cluster;
use capstan_api::infrastructure::{HostCluster, HostMachineTemplate};
use capstan_controller::error::Doing as _;
use capstan_controller::{Next, Reconciler, Result, owners, pause};
use kube::api::{Patch, PatchParams};
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::context::Infrastructure;
use counted::Counted;

/// How often hosts are counted.
const AGAIN: Duration = Duration::from_secs(60);

struct Templates {
    infrastructure: Infrastructure,
    counted: Counted,
}

/// Runs the controller until `stop` is done.
pub async fn run(infrastructure: Infrastructure, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let also = futures::stream::pending();
    let (cache, scope) = (infrastructure.caches.of(), infrastructure.scope.clone());
    capstan_controller::run::run(
        Templates { infrastructure, counted: Counted::default() },
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
        let namespace = template.namespace().unwrap_or_default();
        let cluster = self.cluster(&template, &namespace).await?;
        let kind = HostMachineTemplate::kind(&());
        if pause::reason(cluster.as_ref(), &kind, template.meta()).is_some() {
            return Ok(Next::Changed);
        }
        // Its own write wakes it, too, and so would every host that somebody claims meanwhile.
        if let Some(wait) = self.counted.rests(&template, Instant::now()) {
            return Ok(Next::After(wait));
        }
        let host_cluster = self.host_cluster(cluster.as_ref(), &namespace).await?;
        let hosts = self.infrastructure.remembered_hosts(&namespace).await?;
        let claimable =
            decide(&Observed { template: &template, host_cluster: host_cluster.as_ref(), hosts: &hosts });
        self.counted.note(&template, Instant::now());
        let number = claimable.and_then(|number| i32::try_from(number).ok());
        let before = template.status.as_ref().and_then(|status| status.claimable_hosts);
        if number != before {
            let patch = json!({"status": {"claimableHosts": number}});
            let api = self.infrastructure.api::<HostMachineTemplate>(&namespace);
            let written =
                api.patch_status(&template.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await;
            written.doing(|| {
                format!("cannot write status.claimableHosts of {kind} {namespace}/{}", template.name_any())
            })?;
        }
        Ok(Next::After(AGAIN))
    }
}

impl Templates {
    /// The Cluster whose machines are made from the template.
    async fn cluster(&self, template: &HostMachineTemplate, namespace: &str) -> Result<Option<Cluster>> {
        let Some(owner) = owners::of_kind(template.meta(), "Cluster", &Cluster::group(&())) else {
            return Ok(None);
        };
        self.infrastructure.remembered(namespace, &owner.name).await
    }

    async fn host_cluster(&self, cluster: Option<&Cluster>, namespace: &str) -> Result<Option<HostCluster>> {
        let reference = cluster.and_then(|cluster| cluster.spec.infrastructure_ref.as_ref());
        match reference.filter(|reference| reference.kind == HostCluster::kind(&())) {
            None => Ok(None),
            Some(reference) => self.infrastructure.remembered(namespace, &reference.name).await,
        }
    }
}
