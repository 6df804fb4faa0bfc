//! What a reconcile of a HostCluster reads. No writes.

use capstan_api::core::{Cluster, Machine};
use capstan_api::infrastructure::{HostCluster, HostMachine, HostMachineTemplate};
use capstan_api::meta::{ContractVersionedObjectReference, labels};
use capstan_controller::error::{Doing as _, chain};
use capstan_controller::{Result, owners};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{DynamicObject, ListParams};
use kube::{Resource, ResourceExt as _};
use std::sync::Arc;

use super::decide::domains::{ControlPlane, ControlPlaneHosts};
use crate::context::Infrastructure;

/// Field of a control plane with the reference to the template of its infrastructure machines.
const TEMPLATE: &str = "/spec/machineTemplate/spec/infrastructureRef";

/// The Cluster that owns the HostCluster.
pub(super) async fn cluster(
    infrastructure: &Infrastructure,
    host_cluster: &HostCluster,
) -> Result<Option<Arc<Cluster>>> {
    let namespace = host_cluster.namespace().unwrap_or_default();
    match owners::of_kind(host_cluster.meta(), "Cluster", &Cluster::group(&())) {
        Some(owner) => infrastructure.remembered::<Cluster>(&namespace, &owner.name).await,
        None => Ok(None),
    }
}

/// Number of HostMachines of the Cluster. Read from the API server, because the HostCluster is released when it is
/// zero.
pub(super) async fn machines_left(infrastructure: &Infrastructure, cluster: &Cluster) -> Result<usize> {
    let namespace = cluster.namespace().unwrap_or_default();
    let ours = format!("{}={}", labels::CLUSTER_NAME, cluster.name_any());
    let api = infrastructure.api::<HostMachine>(&namespace);
    let list = api.list_metadata(&ListParams::default().labels(&ours)).await;
    Ok(list.doing(|| format!("cannot list HostMachines in {namespace}"))?.items.len())
}

/// The control plane of the Cluster, of any provider, read by the contract.
pub(super) async fn control_plane(
    infrastructure: &Infrastructure,
    cluster: &Cluster,
) -> Result<ControlPlane> {
    let namespace = cluster.namespace().unwrap_or_default();
    let machines = infrastructure.caches.of::<Machine>();
    let machines = machines.of_cluster(&namespace, &cluster.name_any()).await?;
    let servers = machines.iter().filter(|machine| machine.labels().contains_key(labels::CONTROL_PLANE));
    let references = servers.map(|machine| &machine.spec.infrastructure_ref);
    let names = references.filter(|reference| is_of::<HostMachine>(reference)).map(|it| it.name.clone());
    let hosts = match selector(infrastructure, cluster, &namespace).await {
        Ok(selector) => ControlPlaneHosts::Matching(selector),
        Err(why) => ControlPlaneHosts::Unknown(why),
    };
    Ok(ControlPlane { hosts, machines: names.collect() })
}

/// The selector of the hosts that control plane machines may claim, or why it is unknown. A control plane whose
/// machines are not HostMachines has no selector.
async fn selector(
    infrastructure: &Infrastructure,
    cluster: &Cluster,
    namespace: &str,
) -> std::result::Result<Option<LabelSelector>, String> {
    let missing = |kind: &str, name: &str| format!("{kind} {namespace}/{name} does not exist");
    let Some(reference) = &cluster.spec.control_plane_ref else { return Ok(None) };
    let found = infrastructure.externals.get(reference, namespace).await.map_err(|error| chain(&error))?;
    let control_plane = found.ok_or_else(|| missing(&reference.kind, &reference.name))?;
    let Some(template) = template(&control_plane).filter(is_of::<HostMachineTemplate>) else {
        return Ok(None);
    };
    let found = infrastructure.remembered::<HostMachineTemplate>(namespace, &template.name).await;
    let found = found.map_err(|error| chain(&error))?;
    let found = found.ok_or_else(|| missing("HostMachineTemplate", &template.name))?;
    Ok(found.spec.template.spec.host_selector.clone())
}

fn template(control_plane: &DynamicObject) -> Option<ContractVersionedObjectReference> {
    serde_json::from_value(control_plane.data.pointer(TEMPLATE)?.clone()).ok()
}

fn is_of<K: Resource<DynamicType = ()>>(reference: &ContractVersionedObjectReference) -> bool {
    reference.kind == K::kind(&()) && reference.api_group == K::group(&())
}
