//! What a reconcile of a HostMachineTemplate reads. No writes.

use capstan_api::core::Cluster;
use capstan_api::infrastructure::{HostCluster, HostMachineTemplate};
use capstan_controller::{Result, owners};
use kube::{Resource as _, ResourceExt as _};
use std::sync::Arc;

use crate::context::Infrastructure;

/// The Cluster whose machines are made from the template.
pub(super) async fn cluster(
    infrastructure: &Infrastructure,
    template: &HostMachineTemplate,
) -> Result<Option<Arc<Cluster>>> {
    let Some(owner) = owners::of_kind(template.meta(), "Cluster", &Cluster::group(&())) else {
        return Ok(None);
    };
    infrastructure.remembered(&template.namespace().unwrap_or_default(), &owner.name).await
}

/// The HostCluster of that Cluster.
pub(super) async fn host_cluster(
    infrastructure: &Infrastructure,
    cluster: Option<&Cluster>,
    namespace: &str,
) -> Result<Option<Arc<HostCluster>>> {
    let reference = cluster.and_then(|cluster| cluster.spec.infrastructure_ref.as_ref());
    match reference.filter(|reference| reference.kind == HostCluster::kind(&())) {
        None => Ok(None),
        Some(reference) => infrastructure.remembered(namespace, &reference.name).await,
    }
}
